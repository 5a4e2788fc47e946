-- Volumes of branches: each has one that counts, of its highest generation, and maybe such as were replaced.
create table database_volume (
  -- No foreign key: a volume outlives its branch.
  database_id uuid not null,
  -- Each volume that a copy is restored into has the next number.
  generation integer not null,
  -- Null: its server was never placed.
  node_id uuid,
  -- current: the branch's own. salvage: another took its place, and it may have what that has not. dropped: the branch was.
  state text not null default 'current' check (state in ('current', 'salvage', 'dropped')),
  -- From when on it may go; null: not at all.
  purge_at timestamptz,
  -- When its node was seen without it after that; it is forgotten some time later.
  gone_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (database_id, generation),
  constraint database_volume_purge check ((state = 'current') = (purge_at is null))
);
create index database_volume_node on database_volume (node_id);
create index database_volume_purge_at on database_volume (purge_at);
alter table database add column generation integer not null default 1,
  -- Sealed password of svc_keeper; null: it has none yet. And when it was brought to the server of that generation.
  add column keeper_secret bytea,
  add column keeper_at timestamptz;
insert into database_volume (database_id, generation, node_id) select id, 1, node_id from database;
insert into database_volume (database_id, generation, node_id, state, purge_at)
  select id, 1, node_id, 'dropped', purge_at from dropped_database on conflict do nothing;
-- What a branch that was dropped comes back with; null: it was dropped before that was kept, and cannot.
alter table dropped_database add column admin_secret bytea, add column secret bytea, add column keeper_secret bytea,
  add column generation integer not null default 1, add column role_connection_limit integer;

-- Copies of branches that nodes keep: whole ones, and every change since.
create table database_copy (
  id uuid primary key,
  -- No foreign key: it outlives its branch for as long as that can come back.
  database_id uuid not null,
  engine text not null check (engine in ('postgres', 'mariadb')),
  project_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Of the volume that is copied.
  generation integer not null,
  -- Null until its keeper is placed.
  node_id uuid,
  -- keeper: to be had when the branch's own volume is lost. move: the branch is about to follow it to its node.
  purpose text not null default 'keeper' check (purpose in ('keeper', 'move')),
  -- ended: nothing is added any more; what is there can be restored until `purge_at`.
  state text not null default 'basing' check (state in ('basing', 'following', 'broken', 'ended')),
  -- Why it is broken.
  problem text,
  -- By the clock of the server: all that was acknowledged until then is in it.
  covered_at timestamptz,
  position text,
  bytes bigint,
  -- [{ number, at, bytes }], the oldest first.
  bases jsonb not null default '[]',
  -- When its node told last.
  seen_at timestamptz,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  purge_at timestamptz,
  gone_at timestamptz,
  constraint database_copy_ended check ((state = 'ended') = (ended_at is not null) and (state = 'ended') = (purge_at is not null))
);
create index database_copy_database on database_copy (database_id);
create index database_copy_node on database_copy (node_id);
-- One of each purpose follows a branch. The index is the rule.
create unique index database_copy_slot on database_copy (database_id, purpose) where state <> 'ended';

-- A branch on its way to another volume: out of a copy, of what is there or of some moment before.
create table database_change (
  id uuid primary key,
  database_id uuid not null,
  kind text not null check (kind in ('restore', 'move')),
  state text not null check (state in ('copying', 'freezing', 'draining', 'stopping', 'restoring', 'done', 'failed')),
  -- What it comes out of; null while a move has none yet.
  copy_id uuid,
  -- Restores to that moment, by the clock of the server; null: all there is.
  until timestamptz,
  to_node uuid,
  from_node uuid,
  from_generation integer not null,
  -- Where the server's log was when nobody could write any more; null before that.
  frozen_position text,
  problem text,
  -- What is lost by it, as far as is known: nothing before that moment.
  covered_at timestamptz,
  requested_by text not null,
  created_at timestamptz not null default now(),
  state_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint database_change_ended check ((state in ('done', 'failed')) = (ended_at is not null)),
  constraint database_change_problem check ((state = 'failed') = (problem is not null))
);
create index database_change_database on database_change (database_id, created_at);
-- One of a branch at a time. The index is the rule.
create unique index database_change_slot on database_change (database_id) where ended_at is null;

-- Copies that were restored for a look.
create table restore_proof (
  id uuid primary key,
  database_id uuid not null,
  copy_id uuid not null,
  verdict text not null default 'pending' check (verdict in ('pending', 'proven', 'failed')),
  problem text,
  covered_at timestamptz,
  took_ms bigint,
  bytes bigint,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint restore_proof_ended check ((verdict = 'pending') = (ended_at is null))
);
create index restore_proof_database on restore_proof (database_id, created_at);

alter table task
  drop constraint task_owner_kind_check,
  add constraint task_owner_kind_check check (owner_kind in ('deployment', 'database', 'backup', 'copy')),
  drop constraint task_kind_check,
  add constraint task_kind_check check (kind in ('build', 'serve', 'database', 'backup', 'keeper', 'proof'));

-- Nodes are told anew when a copy begins, ends, or is placed, and when a change moves on.
create function announce_branch_of() returns trigger language plpgsql as $$
begin
  perform pg_notify('svc_branches', concat_ws(' ', new.database_id, (select project_id from database where id = new.database_id),
    (select node_id from database where id = new.database_id)));
  return null;
end $$;
-- Whose node is to keep it has to hear of a branch that it may know nothing of so far.
create function announce_copy() returns trigger language plpgsql as $$
begin
  perform pg_notify('svc_branches', concat_ws(' ', new.database_id, new.project_id, new.node_id));
  return null;
end $$;
create trigger database_copy_news
  after insert or update of state, node_id on database_copy
  for each row execute function announce_branch_of();
create trigger database_copy_node_news
  after insert or update of state, node_id on database_copy
  for each row when (new.node_id is not null) execute function announce_copy();
create trigger database_change_news
  after insert or update of state on database_change
  for each row execute function announce_branch_of();
