-- A picture of what a deployment shows, one at a time: the next takes its place.
create table screenshot (
  id uuid primary key default gen_random_uuid(),
  deployment_id uuid not null unique references deployment (id) on delete cascade,
  project_id uuid not null references project (id) on delete cascade,
  -- When a capture was last asked for, by a person or by svc itself.
  asked_at timestamptz not null default now(),
  -- Whether that is under way, and how often it came to nothing so far.
  pending boolean not null default true,
  failures integer not null default 0,
  -- Why the last try came to nothing; null: it did not.
  error text,
  -- Where in the cluster's registry the newest picture is, the digest of its manifest, and its bytes.
  repository text,
  digest text,
  size_bytes bigint,
  captured_at timestamptz,
  constraint screenshot_file check (
    (captured_at is null) = (repository is null) and (captured_at is null) = (digest is null)
    and (captured_at is null) = (size_bytes is null))
);
create index screenshot_project on screenshot (project_id);
create index screenshot_pending on screenshot (asked_at) where pending;

-- What takes it is a task of its own.
alter table task
  drop constraint task_owner_kind_check,
  add constraint task_owner_kind_check check (owner_kind in ('deployment', 'database', 'backup', 'copy', 'screenshot')),
  drop constraint task_kind_check,
  add constraint task_kind_check check (kind in ('build', 'serve', 'database', 'backup', 'keeper', 'proof', 'capture'));
alter table artifact
  drop constraint artifact_kind_check,
  add constraint artifact_kind_check check (kind in ('source', 'image', 'bundle', 'backup', 'screenshot'));
