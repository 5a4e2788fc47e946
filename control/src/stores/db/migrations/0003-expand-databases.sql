-- What the managed databases of the project run on: said with the first of them, and never changed. Null: it had none yet.
alter table project add column db_engine text check (db_engine in ('postgres', 'mariadb'));

-- Branches: the managed database of one channel each. There is none where there is no row.
create table database (
  id uuid primary key,
  -- Not deleted with the project: its server and its volume have to go first.
  project_id uuid not null references project (id),
  channel text not null check (channel in ('production', 'preview', 'dev')),
  engine text not null check (engine in ('postgres', 'mariadb')),
  status text not null default 'provisioning' check (status in ('provisioning', 'ready', 'dropping', 'error')),
  status_at timestamptz not null default now(),
  -- Why the status is `error`.
  reason text,
  -- Sealed password of the server's administrator, which the platform alone knows.
  admin_secret bytea not null,
  -- Sealed password of the role that owns the database.
  secret bytea not null,
  -- The one that takes its place, sealed for a place of its own, until the server knows no other.
  pending_secret bytea,
  -- Whose disk holds its data; null: no server was ever placed.
  node_id uuid,
  -- When role and database were brought to what they should be in the server; null: they may not be.
  tenant_at timestamptz,
  -- Rises whenever that is doubted: what somebody brought there before the last doubt says nothing.
  tenant_doubts integer not null default 0,
  -- Connections of its role that the server allows, as it was told last; null: it was not.
  role_connection_limit integer,
  read_only boolean not null default false,
  -- As last measured; null before that.
  size_bytes bigint,
  connections integer,
  measured_at timestamptz,
  created_at timestamptz not null default now(),
  unique (project_id, channel),
  constraint database_reason check ((status = 'error') = (reason is not null))
);
create index database_node on database (node_id);

-- Sizes of branches over time, for those who watch them grow.
create table database_sample (
  database_id uuid not null references database (id) on delete cascade,
  sampled_at timestamptz not null default now(),
  size_bytes bigint not null,
  primary key (database_id, sampled_at)
);

-- Branches that were dropped. Their volumes are kept for a while, and may go from `purge_at` on.
create table dropped_database (
  id uuid primary key,
  -- No foreign keys: it outlives them.
  project_id uuid not null,
  owner_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  engine text not null check (engine in ('postgres', 'mariadb')),
  -- Null: there is no volume, as no server was ever placed.
  node_id uuid,
  dropped_at timestamptz not null default now(),
  purge_at timestamptz not null
);
create index dropped_database_purge_at on dropped_database (purge_at);

-- SQL that people of a project keep for the console.
create table saved_query (
  id uuid primary key,
  project_id uuid not null references project (id) on delete cascade,
  name text not null,
  sql text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name)
);

-- Their servers are tasks.
alter table task
  drop constraint task_owner_kind_check,
  add constraint task_owner_kind_check check (owner_kind in ('deployment', 'database')),
  drop constraint task_kind_check,
  add constraint task_kind_check check (kind in ('build', 'serve', 'database'));
