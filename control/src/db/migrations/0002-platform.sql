-- What svc itself keeps. better-auth's tables are in schema "auth" (0001-auth.sql).

create table plan (
  id uuid primary key default gen_random_uuid(),
  slug text not null unique,
  name text not null,
  is_default boolean not null default false,
  memory_mb integer not null,
  cpu_millicores integer not null,
  pids_limit integer not null,
  max_projects integer not null,
  max_deploys_per_hour integer not null,
  max_upload_mb integer not null,
  max_image_mb integer not null,
  max_env_vars integer not null,
  rate_limit_per_minute integer,
  monthly_requests bigint,
  monthly_bandwidth_mb bigint,
  storage_mb integer not null,
  db_size_mb integer not null,
  db_connection_limit integer not null,
  max_databases integer not null,
  max_backups integer not null,
  max_sse_connections integer not null,
  max_scheduled_jobs integer not null,
  max_custom_domains integer not null,
  dev_sync_enabled boolean not null,
  previews_enabled boolean not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index plan_one_default on plan (is_default) where is_default;

-- Which plan a user has. No row: the default plan.
create table account (
  user_id uuid primary key references auth."user" (id) on delete cascade,
  plan_id uuid not null references plan (id)
);

create table api_token (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth."user" (id) on delete cascade,
  name text not null,
  start text not null,
  hash bytea not null unique,
  -- null: full access. Anything but an array of known scopes is read as no scope at all.
  scopes jsonb,
  project_ids uuid[],
  expires_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now()
);

create table project (
  id uuid primary key default gen_random_uuid(),
  owner_id uuid not null references auth."user" (id),
  name text not null,
  slug text not null unique,
  type text not null check (type in ('static', 'ssr', 'ociimage')),
  framework text,
  repo_url text,
  repo_id text,
  production_branch text not null default 'main',
  deploy_mode text not null default 'auto' check (deploy_mode in ('auto', 'preview')),
  suspended_at timestamptz,
  suspend_reason text check (suspend_reason in ('quota', 'admin')),
  password_hash text,
  -- Set while the teardown runs; the row goes last.
  deleting_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index project_owner on project (owner_id, created_at desc);

create table env_var (
  project_id uuid not null references project (id) on delete cascade,
  key text not null,
  value bytea not null,
  primary key (project_id, key)
);

create table deployment (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null references project (id) on delete cascade,
  status text not null default 'queued'
    check (status in ('queued', 'building', 'deploying', 'running', 'failed', 'superseded', 'canceled', 'stopped')),
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Only for the preview of one pull request.
  pr_number integer,
  url text not null,
  error text,
  error_code text,
  trigger text,
  git_sha text,
  git_ref text,
  git_repository text,
  git_pr_number integer,
  -- Whole normalised manifest, commands included; the snapshot that users see is derived.
  manifest jsonb not null,
  root_directory text,
  manifest_path text,
  watch_paths text[],
  source_size bigint,
  source_repository text,
  source_digest text,
  -- oci image, built image, or static bundle, by digest, once known.
  artifact_kind text check (artifact_kind in ('image', 'bundle')),
  artifact_repository text,
  artifact_digest text,
  artifact_size bigint,
  artifact_os text,
  artifact_architecture text,
  requested_reference text,
  -- Host of the registry that holds the image; null for the cluster's own.
  image_registry text,
  -- Sealed JSON object: the environment as it was when this deployment was accepted.
  env bytea,
  release_status text not null default 'not_configured'
    check (release_status in ('not_configured', 'pending', 'running', 'succeeded', 'failed', 'skipped')),
  release_attempt integer not null default 0,
  -- Where the present attempt was offered.
  release_node_id uuid,
  release_started_at timestamptz,
  release_finished_at timestamptz,
  release_exit_code integer,
  release_error text,
  release_skipped_reason text,
  -- Higher wins within a channel; rises with each deployment of the project.
  number bigint generated always as identity,
  created_by_token uuid,
  phase_started_at timestamptz,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz
);
create index deployment_project on deployment (project_id, channel, number desc);
create index deployment_open on deployment (status) where status in ('queued', 'building', 'deploying');

create table deployment_event (
  id bigint generated always as identity primary key,
  deployment_id uuid not null references deployment (id) on delete cascade,
  at timestamptz not null default now(),
  phase text not null,
  from_status text,
  to_status text,
  detail text
);
create index deployment_event_deployment on deployment_event (deployment_id, id);

-- Every name that svc answers for. One row, one owner, for ever unique.
create table site_host (
  host text primary key,
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  pr_number integer
);
create index site_host_project on site_host (project_id);

-- What each channel serves now.
create table channel_state (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null,
  -- 0 for the stable channel, the pull request's number otherwise.
  pr_number integer not null default 0,
  deployment_id uuid references deployment (id),
  stopped boolean not null default false,
  changed_at timestamptz not null default now(),
  primary key (project_id, channel, pr_number)
);

-- Desired work on nodes: one row per placement, one-shot. Node and epoch are decided by the leader.
create table task (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null,
  deployment_id uuid not null,
  kind text not null check (kind in ('build', 'serve')),
  channel text not null,
  pr_number integer not null default 0,
  replica integer not null default 0,
  epoch bigint generated always as identity,
  desired text not null default 'running' check (desired in ('running', 'stopped', 'removed')),
  -- Everything but secrets.
  spec jsonb not null,
  spec_hash text not null,
  memory_mb integer not null,
  cpu_millicores integer not null,
  pids_limit integer not null,
  node_id uuid,
  -- Why no node takes it, as counts per filter; null once placed.
  refused jsonb,
  created_at timestamptz not null default now(),
  -- Set by the leader once the agent has confirmed removal; the row may then go.
  reaped_at timestamptz
);
create index task_deployment on task (deployment_id, kind);
create index task_open on task (id) where reaped_at is null;

-- A stream is a placement (its build log) or a run attempt (its output).
create table log_chunk (
  stream_id text not null,
  "offset" bigint not null,
  data bytea not null,
  created_at timestamptz not null default now(),
  primary key (stream_id, "offset")
);

create table cluster (
  "only" boolean primary key default true check ("only"),
  id uuid not null,
  epoch bigint not null default 1,
  ca_certificate text not null,
  ca_key bytea not null,
  created_at timestamptz not null default now()
);

-- The newest leader that wrote here. Leader writes raise it in their own transaction, or stop.
create table leader_fence (
  "only" boolean primary key default true check ("only"),
  epoch bigint not null
);
insert into leader_fence (epoch) values (0);

create table node (
  id uuid primary key default gen_random_uuid(),
  role text not null check (role in ('node', 'edge')),
  name text not null unique,
  incarnation bigint not null default 1,
  lifecycle text not null default 'active' check (lifecycle in ('active', 'fenced', 'removed')),
  schedulable boolean not null default true,
  -- Last facts the daemon told about itself.
  version text,
  address text,
  labels jsonb not null default '{}',
  capacity jsonb,
  platform jsonb,
  last_seen_at timestamptz,
  certificate_expires_at timestamptz,
  created_at timestamptz not null default now()
);

create table bootstrap_token (
  id text primary key,
  hash bytea not null,
  role text not null check (role in ('node', 'edge')),
  created_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  revoked_at timestamptz,
  used_at timestamptz,
  used_key_hash bytea,
  node_id uuid references node (id)
);

-- Answers of agents to log queries, on their way to the replica that asked.
create table log_reply (
  request_id uuid primary key,
  text text not null,
  lines integer not null,
  error text,
  created_at timestamptz not null default now()
);

create table resource_sample (
  task_id uuid not null,
  project_id uuid not null,
  at timestamptz not null,
  cpu_percent real not null,
  memory_bytes bigint not null,
  pids integer not null,
  primary key (task_id, at)
);

-- Durable work. Claimed under a lease; items of one key run one after another, in order.
create table work_item (
  id bigint generated always as identity primary key,
  kind text not null,
  key text not null,
  payload jsonb not null,
  state text not null default 'queued' check (state in ('queued', 'running', 'done', 'failed')),
  run_at timestamptz not null default now(),
  attempt integer not null default 0,
  max_attempts integer not null default 20,
  lease_owner text,
  lease_until timestamptz,
  error text,
  created_at timestamptz not null default now(),
  finished_at timestamptz
);
create unique index work_item_one_running on work_item (key) where state = 'running';
create index work_item_due on work_item (run_at, id) where state = 'queued';
create index work_item_key on work_item (key, id) where state in ('queued', 'running');

create table audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  user_id uuid,
  token_id uuid,
  action text not null,
  target text,
  address text,
  detail jsonb not null default '{}'
);

create table idempotency (
  user_id uuid not null,
  key text not null,
  request_hash bytea not null,
  status integer not null,
  body jsonb not null,
  created_at timestamptz not null default now(),
  primary key (user_id, key)
);
