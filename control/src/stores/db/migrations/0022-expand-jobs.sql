-- A scheduled job of a channel, or of the preview of one pull request. It keeps its id, its history and what its owner said of
-- it over all deployments that have a job of its name.
create table job (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- 0 for the stable channel, the pull request's number otherwise.
  pr_number integer not null default 0,
  name text not null,
  -- Whose manifest says what it does: what the channel serves, or served last with a job of this name.
  deployment_id uuid not null,
  schedule text not null,
  timezone text not null,
  timeout_seconds integer not null,
  retries integer not null,
  overlap text not null check (overlap in ('skip', 'queue')),
  -- What the manifest says, and what its owner said (null: nothing). It is scheduled when neither says no, and nothing pauses it.
  source_enabled boolean not null,
  user_enabled boolean,
  -- Why the platform does not schedule it; null: it does.
  pause_reason text check (pause_reason in ('stopped', 'suspended', 'plan')),
  -- Null: it is not scheduled.
  next_fire_at timestamptz,
  last_fire_at timestamptz,
  last_success_at timestamptz,
  -- Since when the channel serves nothing that has a job of this name.
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, channel, pr_number, name)
);
create index job_due on job (next_fire_at) where next_fire_at is not null;
create index job_deployment on job (deployment_id);

-- One run of a job, over all its attempts. These are rows of `run`, of the kind `job`.
create table job_run (
  id uuid primary key default gen_random_uuid(),
  job_id uuid not null references job (id) on delete cascade,
  project_id uuid not null,
  -- What its attempts run in. It may change until the first of them is placed.
  deployment_id uuid not null,
  -- The instant of the schedule that it is for; null: somebody asked for it.
  fire_at timestamptz,
  trigger text not null check (trigger in ('schedule', 'manual')),
  status text not null check (status in
    ('queued', 'waiting', 'running', 'cancel_requested', 'succeeded', 'failed', 'timed_out', 'canceled', 'skipped')),
  -- Why it waits, or how it ended, as a word and for people.
  reason text,
  message text,
  -- Of those that were skipped with it because nobody was there to start them.
  missed integer not null default 0,
  -- Attempts that began.
  attempt_count integer not null default 0,
  -- Not before: the pause before the next attempt.
  retry_at timestamptz,
  -- The key that asked for it; null for a schedule, and for somebody who was signed in.
  requested_by_token uuid,
  requested_by uuid,
  cancel_requested_at timestamptz,
  -- Newest first, also of those that began in one instant.
  number bigint generated always as identity,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  unique (job_id, fire_at)
);
create index job_run_project on job_run (project_id, number desc);
create index job_run_job on job_run (job_id, number desc);
create index job_run_open on job_run (job_id) where status in ('queued', 'waiting', 'running', 'cancel_requested');
create index job_run_deployment on job_run (deployment_id);

alter table run add column outcome text;
alter table run add column message text;
alter table run drop constraint run_owner_kind_check;
alter table run add constraint run_owner_kind_check check (owner_kind in ('deployment', 'job'));
alter table run drop constraint run_kind_check;
alter table run add constraint run_kind_check check (kind in ('release', 'job'));
