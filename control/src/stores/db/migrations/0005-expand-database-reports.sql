-- What a branch's volume takes of its node's disk, as told last; and as told when its size was measured last.
alter table database add column volume_bytes bigint, add column sized_volume_bytes bigint;

-- Logins of a node's containers that a branch's server refused, as that node counts them since its database proxy began.
create table database_login_failures (
  database_id uuid not null references database (id) on delete cascade,
  node_id uuid not null,
  failed bigint not null,
  primary key (database_id, node_id)
);
