-- Volumes of databases that nodes have and that nobody knows: they are shown to operators, and never removed by the platform.
create table unknown_volume (
  node_id uuid not null references node (id) on delete cascade,
  name text not null,
  -- When its node first told of it.
  since timestamptz not null default now(),
  primary key (node_id, name)
);
