-- Backups of branches. They outlive these, and go with the project.
create table database_backup (
  id uuid primary key,
  project_id uuid not null references project (id) on delete cascade,
  -- The branch that it was taken of. No foreign key: it outlives that.
  database_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  engine text not null check (engine in ('postgres', 'mariadb')),
  status text not null default 'pending' check (status in ('pending', 'running', 'complete', 'failed')),
  -- Why the status is `failed`.
  error text,
  -- Where in the cluster's registry the file is, the digest of its manifest, and the bytes of the file and of the SQL in it.
  repository text,
  digest text,
  size_bytes bigint,
  dump_bytes bigint,
  created_at timestamptz not null default now(),
  -- When it was complete or failed.
  ended_at timestamptz,
  constraint database_backup_error check ((status = 'failed') = (error is not null)),
  constraint database_backup_ended check ((status in ('complete', 'failed')) = (ended_at is not null)),
  constraint database_backup_file check (
    (status = 'complete') = (repository is not null and digest is not null and size_bytes > 0 and dump_bytes > 0))
);
-- One of a project at a time, whatever its channel. The index is the rule.
create unique index database_backup_slot on database_backup (project_id) where status in ('pending', 'running');
create index database_backup_project on database_backup (project_id, created_at);

-- What makes them is a task of its own.
alter table task
  drop constraint task_owner_kind_check,
  add constraint task_owner_kind_check check (owner_kind in ('deployment', 'database', 'backup')),
  drop constraint task_kind_check,
  add constraint task_kind_check check (kind in ('build', 'serve', 'database', 'backup'));
alter table artifact
  drop constraint artifact_kind_check,
  add constraint artifact_kind_check check (kind in ('source', 'image', 'bundle', 'backup'));
