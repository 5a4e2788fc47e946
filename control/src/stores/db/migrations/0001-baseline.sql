-- The whole schema as it was first released. Every later step is a file of its own.

-- =====================================================================================================================
-- Who signs in
-- Tables of better-auth with the plugins admin and device authorization. Names and types are the library's;
-- identity/auth/auth.system.test.ts proves that it finds nothing to change.
-- =====================================================================================================================

create schema auth;

create table auth."user" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "name" text not null,
  "email" text not null unique,
  "emailVerified" boolean not null,
  "image" text,
  "createdAt" timestamptz default current_timestamp not null,
  "updatedAt" timestamptz default current_timestamp not null,
  "role" text,
  "banned" boolean,
  "banReason" text,
  "banExpires" timestamptz
);

create table auth."session" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "expiresAt" timestamptz not null,
  "token" text not null unique,
  "createdAt" timestamptz default current_timestamp not null,
  "updatedAt" timestamptz not null,
  "ipAddress" text,
  "userAgent" text,
  "userId" uuid not null references auth."user" ("id") on delete cascade,
  "impersonatedBy" text
);
create index "session_userId_idx" on auth."session" ("userId");

create table auth."account" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "accountId" text not null,
  "providerId" text not null,
  "userId" uuid not null references auth."user" ("id") on delete cascade,
  "accessToken" text,
  "refreshToken" text,
  "idToken" text,
  "accessTokenExpiresAt" timestamptz,
  "refreshTokenExpiresAt" timestamptz,
  "scope" text,
  "password" text,
  "createdAt" timestamptz default current_timestamp not null,
  "updatedAt" timestamptz not null
);
create index "account_userId_idx" on auth."account" ("userId");
-- An account elsewhere belongs to one user here.
create unique index "account_provider_uidx" on auth."account" ("providerId", "accountId")
  where "providerId" <> 'credential';

create table auth."verification" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "identifier" text not null,
  "value" text not null,
  "expiresAt" timestamptz not null,
  "createdAt" timestamptz default current_timestamp not null,
  "updatedAt" timestamptz default current_timestamp not null
);
create index "verification_identifier_idx" on auth."verification" ("identifier");

create table auth."deviceCode" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "deviceCode" text not null,
  "userCode" text not null,
  "userId" text,
  "expiresAt" timestamptz not null,
  "status" text not null,
  "lastPolledAt" timestamptz,
  "pollingInterval" integer,
  "clientId" text,
  "scope" text
);
create unique index "deviceCode_deviceCode_uidx" on auth."deviceCode" ("deviceCode");
create unique index "deviceCode_userCode_uidx" on auth."deviceCode" ("userCode");

create table auth."rateLimit" (
  "id" uuid default pg_catalog.gen_random_uuid() not null primary key,
  "key" text not null unique,
  "count" integer not null,
  "lastRequest" bigint not null
);

-- =====================================================================================================================
-- Who may come in: invitations, the waiting list, the first administrator, and guessing held back
-- =====================================================================================================================

create table invite (
  id uuid primary key,
  -- Lower case. The code makes an account with this address and no other.
  email text not null,
  -- SHA-256 of the code, which is in no table.
  hash bytea not null unique,
  created_by uuid references auth."user" (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- Taken by a sign-up. One that came to nothing leaves user_id null, and gives the code back after a minute.
  claimed_at timestamptz,
  -- Set once the account exists, and kept when it goes.
  used_at timestamptz,
  user_id uuid references auth."user" (id) on delete set null
);
-- A newer invitation replaces the one before.
create unique index invite_open_email on invite (email) where used_at is null;

create table waitlist_entry (
  -- Lower case.
  email text primary key,
  created_at timestamptz not null default now(),
  invited_at timestamptz
);

-- The one link that makes the first administrator; a newer one replaces it.
create table claim_link (
  "only" boolean primary key default true check ("only"),
  hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);

-- How much of something is left to somebody: fills up with time, is taken from by each attempt.
create table attempt_bucket (
  -- What and whose; never an address or a name in the clear.
  key text primary key,
  tokens double precision not null,
  at timestamptz not null
);
create index attempt_bucket_at on attempt_bucket (at);

-- =====================================================================================================================
-- Accounts: what a user has besides a name
-- =====================================================================================================================

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
  updated_at timestamptz not null default now(),
  max_replicas integer not null default 10 check (max_replicas between 1 and 10),
  -- Labels that nodes must have to run what is of this plan.
  node_selector jsonb not null default '{}',
  -- How long the manifests of its accounts may ask that a container, once replaced, serves what is open.
  max_drain_seconds integer not null default 300 check (max_drain_seconds between 0 and 3600),
  -- What is set aside on a node for one container, apart from what it may take at most. Null: the part of the limits
  -- that the version of control takes it for.
  reserved_memory_mb integer,
  reserved_cpu_millicores integer
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

-- Somebody whose deletion began: their keys and sessions are gone, their address is free, their projects are being
-- torn down. The user's row goes last, and this one with it.
create table user_deletion (
  user_id uuid primary key references auth."user" (id) on delete cascade,
  requested_by uuid,
  requested_at timestamptz not null default now()
);

-- Answers to requests that are told apart by a key, so that one that comes again is answered alike.
create table idempotency (
  user_id uuid not null,
  key text not null,
  request_hash bytea not null,
  status integer not null,
  body jsonb not null,
  created_at timestamptz not null default now(),
  primary key (user_id, key)
);

-- Requests per user and minute (of the epoch) of users whose plan limits them, of all replicas together. Of no worth
-- after a few minutes, so a crash of the database may take it.
create unlogged table request_window (
  user_id uuid not null,
  minute integer not null,
  requests integer not null,
  primary key (user_id, minute)
);
create index request_window_minute on request_window (minute);

-- =====================================================================================================================
-- Projects
-- =====================================================================================================================

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
  updated_at timestamptz not null default now(),
  -- The slug that the project is about to get; null when no rename is under way.
  next_slug text,
  -- When it was asked for: edges that do not answer are waited for from then on.
  next_slug_at timestamptz,
  -- Rises whenever a suspension or a resumption is asked for, so that what was decided before then does nothing any
  -- more.
  suspension_number bigint not null default 0,
  -- When the resumption that is under way was asked for; null: none is. Until it is over the project is suspended.
  resuming_at timestamptz,
  -- Since when no edge sends visitors to the containers of the suspended project; null: one still may.
  unrouted_at timestamptz,
  -- Until when the project runs whatever its owner has used of the month's quota, because an administrator said so.
  quota_waived_until timestamptz,
  constraint project_resuming check (resuming_at is null or suspended_at is not null)
);
create index project_owner on project (owner_id, created_at desc);
create index project_suspended on project (owner_id) where suspended_at is not null;

create table env_var (
  project_id uuid not null references project (id) on delete cascade,
  key text not null,
  -- Sealed.
  value bytea not null,
  primary key (project_id, key)
);

-- Variables of one channel only: a deployment of it gets these over the project's own.
create table env_overlay (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  key text not null,
  -- Sealed.
  value bytea not null,
  primary key (project_id, channel, key)
);

-- Logins of private registries.
create table registry_credential (
  project_id uuid not null references project (id) on delete cascade,
  -- As registries are compared: lower case, Docker Hub under one name, `:port` unless it is 443.
  host text not null,
  -- Sealed JSON object {username, secret}, bound to project and host.
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, host)
);

-- Every name that svc answers for. One row, one owner, for ever unique. While a project is renamed, the hosts of the
-- next slug serve beside those of the present one until every edge has them; then the old ones redirect for a while.
create table site_host (
  host text primary key,
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  pr_number integer,
  -- The slug that the name was made of; null: that of the project.
  slug text,
  -- Where visitors are sent instead; null: the host serves. A redirect goes together with its target.
  redirect_to text references site_host (host) on delete cascade,
  redirect_until timestamptz,
  -- The host was made for the slug that the project is about to get. Should the project give that slug up before it is
  -- its own, what was made for it goes at once, and what redirected before does so again.
  for_next_slug boolean not null default false,
  -- Until when the host redirected before the slug that the project is about to get took it back; null: it did not.
  redirected_until timestamptz,
  constraint site_host_redirect
    check ((redirect_to is null) = (redirect_until is null) and redirect_to is distinct from host)
);
create index site_host_project on site_host (project_id);
create index site_host_redirect_to on site_host (redirect_to) where redirect_to is not null;
create index site_host_redirect_until on site_host (redirect_until) where redirect_until is not null;

-- =====================================================================================================================
-- Deployments
-- =====================================================================================================================

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
  -- Why its release command failed or was not run; the attempts at it are runs.
  release_error text,
  release_skipped_reason text,
  -- Higher wins within a channel; rises with each deployment of the project.
  number bigint generated always as identity,
  created_by_token uuid,
  phase_started_at timestamptz,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  -- Somebody asked for the end of a deployment that is on its way; the worker carries it out.
  cancel_requested_at timestamptz,
  -- Made of another deployment's artifact, without a build.
  origin text check (origin in ('rollback', 'promote')),
  origin_deployment_id uuid,
  -- Sealed JSON object: variables of the env files that were packed with the source. They travel with the artifact,
  -- under whatever the project's own environment is by then.
  file_env bytea,
  -- Set when its removal began; the row goes last.
  removing_at timestamptz,
  -- Since when the registry holds the artifact no more: history only.
  artifact_removed_at timestamptz,
  -- Since when a stop covers a deployment that is on its way: it is made ready and does not serve. Null: it serves then.
  held_at timestamptz,
  -- Stands for everything that decided what was built; null: not known, or not built. Of the same source and the same
  -- key nothing is built again.
  build_key text check (length(build_key) <= 128),
  -- It is built in any case.
  force_build boolean not null default false
);
create index deployment_project on deployment (project_id, channel, number desc);
create index deployment_open on deployment (status) where status in ('queued', 'building', 'deploying');
create index deployment_live on deployment (project_id)
  where status in ('queued', 'building', 'deploying', 'running', 'stopped');
create index deployment_newest on deployment (project_id, number desc);
create index deployment_status on deployment (status);
create index deployment_created on deployment (created_at);
create index deployment_removing on deployment (removing_at) where removing_at is not null;
create index deployment_build on deployment (project_id, source_digest, number desc) where build_key is not null;

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

-- One line per deployment that a user had accepted: what the hourly limit counts. It refers to no deployment and no
-- project, so that removing either gives nothing back. Lines are deleted once they have left the hour.
create table accepted_deploy (
  deployment_id uuid primary key,
  user_id uuid not null references auth."user" (id) on delete cascade,
  at timestamptz not null default now()
);
create index accepted_deploy_user on accepted_deploy (user_id, at desc);

-- =====================================================================================================================
-- Tasks: what should run on nodes, and what it says of itself
-- =====================================================================================================================

-- Desired work on nodes: one row per placement, one-shot. Node and epoch are decided by the leader.
create table task (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null,
  -- What it is made for, and goes with.
  owner_kind text not null check (owner_kind in ('deployment')),
  owner_id uuid not null,
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
  reaped_at timestamptz,
  -- What the timeline last said of a container that serves: null while all is well.
  trouble text check (trouble in ('crashed', 'ended')),
  -- Restarts that the timeline has told of, and how many lines that took.
  noted_restarts integer not null default 0,
  notes integer not null default 0,
  -- Another replica has taken this one's place: edges are told to leave it, then it goes.
  retiring_at timestamptz,
  -- Why it was made although its deployment serves already, such as 'node unreachable'; null: with its deployment.
  cause text,
  -- Labels that its node must have.
  node_selector jsonb not null default '{}',
  -- When a container was first seen to serve; null: it never did, as far as anybody saw. What never did is tried again
  -- soon, and more and more rarely.
  served_at timestamptz,
  -- What a container or a build may write to its node's disk, in MiB. 0: whatever it wants.
  storage_mb integer not null default 0,
  -- Of a task that is to be removed: how long its container may serve what is open. It is only ever shortened; 0: it
  -- goes at once.
  drain_seconds integer not null default 0 check (drain_seconds >= 0),
  -- What is set aside for it on its node, apart from what it may take at most. Null: all of its limits.
  reserved_memory_mb integer,
  reserved_cpu_millicores integer,
  -- Ends of a container with no steady minute between them, as its agent tells them: see `crashing` of an observation.
  -- Null: none.
  crashing jsonb
);
create index task_owner on task (owner_id, kind);
create index task_open on task (id) where reaped_at is null;
-- What a project runs is asked for with each list of projects: only its own tasks are looked at.
create index task_project on task (project_id) where reaped_at is null;

-- Commands that must not run twice: one row for each attempt. It is at one node for good: that is here before the node is
-- offered the command, so an offer that is repeated after a crash cannot be made to a second one. How far it is stands in
-- etcd while it is under way.
create table run (
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null,
  owner_kind text not null check (owner_kind in ('deployment')),
  owner_id uuid not null,
  kind text not null check (kind in ('release')),
  -- Attempts of one owner at one kind of command, counted from 1.
  number integer not null check (number > 0),
  node_id uuid not null,
  started_at timestamptz,
  finished_at timestamptz,
  exit_code integer,
  unique (owner_id, kind, number)
);
create index run_project on run (project_id);

create table resource_sample (
  task_id uuid not null,
  project_id uuid not null,
  at timestamptz not null,
  cpu_percent real not null,
  memory_bytes bigint not null,
  pids integer not null,
  primary key (task_id, at)
);
-- Old samples are found without reading all of them: they were written in the order of their time.
create index resource_sample_at on resource_sample using brin (at) with (autosummarize = on);

-- A stream is a task (its build log) or a run (its output).
create table log_chunk (
  stream_id text not null,
  "offset" bigint not null,
  data bytea not null,
  created_at timestamptz not null default now(),
  primary key (stream_id, "offset")
);
create index log_chunk_age on log_chunk (created_at);

-- Which node was asked for the last lines of a container: only that one may answer, and only while somebody waits.
create table log_query (
  request_id uuid primary key,
  node_id uuid not null,
  asked_at timestamptz not null default now()
);
create index log_query_asked_at on log_query (asked_at);

-- Answers of agents to log queries, on their way to the replica that asked.
create table log_reply (
  request_id uuid primary key,
  text text not null,
  lines integer not null,
  error text,
  created_at timestamptz not null default now(),
  -- Of the container that wrote it; null: the agent does not tell.
  state text check (state in ('running', 'exited', 'absent')),
  -- How it ended, when it did so by itself.
  exit jsonb
);

-- =====================================================================================================================
-- Artifacts and images in the cluster's registry
-- =====================================================================================================================

-- What was pushed to the registry, so that what nothing refers to any more can be deleted there.
create table artifact (
  -- Also the tag that it is pushed under: a push whose digest nobody heard of is found by it.
  id uuid primary key,
  -- No foreign key: the row stays until the registry has let go, which may be after the project.
  project_id uuid not null,
  repository text not null,
  kind text not null check (kind in ('source', 'image', 'bundle')),
  -- Null until it is known.
  digest text,
  size_bytes bigint,
  created_at timestamptz not null default now(),
  -- Null while the push is under way, as far as anybody knows.
  ended_at timestamptz
);
create index artifact_project on artifact (project_id);

-- Layers that were unpacked once on their way into the project's repository, so that nobody has to do it again to
-- know how large an image is.
create table image_layer (
  project_id uuid not null references project (id) on delete cascade,
  digest text not null,
  unpacked_bytes bigint not null,
  used_at timestamptz not null default now(),
  -- Projects of one account bring a layer that they have from the same place once. Null: nobody knows where it is from.
  origin text,
  primary key (project_id, digest)
);

-- Base images of users' Dockerfiles that were copied into the cluster's registry, below `bases/`. A row is there before
-- anything is pushed, so whatever is in the registry can be found.
create table base_image (
  repository text not null,
  digest text not null,
  -- As it is transferred.
  size_bytes bigint not null,
  -- The account whose build asked for it first; null: it is deleted.
  owner_id uuid references auth."user" (id) on delete set null,
  -- Null while nobody has seen it whole.
  copied_at timestamptz,
  used_at timestamptz not null default now(),
  primary key (repository, digest)
);
create index base_image_used_at_idx on base_image (used_at);
create index base_image_owner_id_idx on base_image (owner_id);

-- Repositories of the cluster's registry into which accounts push images of their own.
create table account_repository (
  user_id uuid not null references auth."user" (id) on delete cascade,
  -- Behind what the account's repositories begin with.
  name text not null,
  created_at timestamptz not null default now(),
  -- When the last token that was given for pushing there has ended, whatever the clocks say.
  push_until timestamptz not null,
  -- While it lasts one look alone deletes there what no tag names, and nobody gets a token for pushing there.
  cleaning_until timestamptz,
  -- When it was last looked through while nobody could push there.
  looked_at timestamptz,
  primary key (user_id, name)
);
create index account_repository_push on account_repository (push_until);

-- Manifests that control has seen in repositories of accounts, until they are gone from the registry.
create table account_manifest (
  user_id uuid not null,
  name text not null,
  digest text not null,
  -- Of the manifest itself.
  bytes bigint not null,
  -- Of several images, which are manifests as well.
  is_index boolean not null,
  -- Each digest that it names, and how large that blob is in the registry, whatever the manifest says; null: it is no
  -- blob there. Null for a manifest that is too large to be read.
  parts jsonb,
  primary key (user_id, name, digest),
  foreign key (user_id, name) references account_repository (user_id, name) on delete cascade
);

-- Manifests of which the registry said that they were pushed into a repository of an account, by tag or by digest alone,
-- until they were looked at.
create table account_push (
  user_id uuid not null,
  name text not null,
  digest text not null,
  primary key (user_id, name, digest),
  foreign key (user_id, name) references account_repository (user_id, name) on delete cascade
);

-- =====================================================================================================================
-- The cluster and its machines
-- =====================================================================================================================

create table cluster (
  "only" boolean primary key default true check ("only"),
  id uuid not null,
  epoch bigint not null default 1,
  ca_certificate text not null,
  ca_key bytea not null,
  created_at timestamptz not null default now(),
  -- While the authority is being replaced: the one before, whose certificates are still let in, and the present one
  -- signed by it. Its key is not kept: nothing is signed with it any more.
  previous_ca_certificate text,
  cross_certificate text,
  rotation_started_at timestamptz,
  -- Of the last one that came to its end.
  rotation_finished_at timestamptz,
  constraint cluster_rotation check (
    (previous_ca_certificate is null) = (cross_certificate is null)
    and (previous_ca_certificate is null or rotation_started_at is not null)
  )
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
  name text not null,
  incarnation bigint not null default 1,
  lifecycle text not null default 'active' check (lifecycle in ('active', 'fenced', 'removed')),
  schedulable boolean not null default true,
  -- Last facts the daemon told about itself.
  version text,
  -- Where its agent said last that it is reached.
  address text,
  labels jsonb not null default '{}',
  capacity jsonb,
  platform jsonb,
  last_seen_at timestamptz,
  certificate_expires_at timestamptz,
  created_at timestamptz not null default now(),
  -- Below its free-space floor: takes no new work.
  disk_full boolean not null default false,
  -- A drain moves what runs on a node elsewhere. 'deadline': it ran out of time and what is left needs a person.
  drain text not null default 'none' check (drain in ('none', 'draining', 'drained', 'deadline')),
  -- Rises with every drain and every cancelling of one, so that what was decided before does nothing any more.
  drain_generation bigint not null default 0,
  drain_started_at timestamptz,
  drain_deadline timestamptz,
  -- What the operator said when they last cordoned, drained or fenced it.
  reason text,
  -- Since when two machines were seen to use this identity; only a new one heals that.
  quarantined_at timestamptz,
  -- Which authorities the daemon trusts, by the certificate that it presented last; null: it was issued before this was
  -- told.
  certificate_trust text,
  -- The node's container engine does not answer: nothing new starts there, and what ended does not start again.
  engine_stalled boolean not null default false,
  -- Labels that operators give a machine. Plans choose machines by these alone: `labels` is what a machine says of itself.
  operator_labels jsonb not null default '{}',
  -- Addresses at which edges may be sent to a node: those that operators name, or the one that it joined from. Null: it
  -- joined with a control that did not keep that.
  addresses jsonb,
  -- Why its agent was turned away last; null once it was let in again.
  refusal text,
  -- Why the node's container engine must not build Dockerfiles of users; null: it may.
  dockerfile_problem text,
  -- Less memory than the node's floor is really left, whatever is set aside.
  memory_short boolean not null default false,
  constraint node_drain check (drain = 'none' or not schedulable)
);
-- A removed machine is out of the fleet for ever, and another one may have its name.
create unique index node_name on node (name) where lifecycle != 'removed';

-- What happened to a machine of the fleet, newest last.
create table node_event (
  id bigint generated always as identity primary key,
  node_id uuid not null references node (id) on delete cascade,
  at timestamptz not null default now(),
  -- joined, connected, suspect, unreachable, cordoned, drain-started, fenced, ...
  kind text not null,
  detail text
);
create index node_event_node on node_event (node_id, id);

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
  node_id uuid references node (id),
  -- When somebody with another key last tried a token that was used.
  reused_at timestamptz,
  -- Addresses that an operator names for the node that joins with it; null: the one that it joins from.
  addresses jsonb
);

-- =====================================================================================================================
-- Traffic: what visitors asked for, as the edges counted it
-- =====================================================================================================================

create table traffic_hour (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Start of the hour, UTC.
  hour timestamptz not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  s2xx bigint not null default 0,
  s3xx bigint not null default 0,
  s4xx bigint not null default 0,
  s5xx bigint not null default 0,
  primary key (project_id, channel, hour)
);
create index traffic_hour_hour on traffic_hour (hour);

-- The same per user and calendar month (UTC). What quotas are measured by: deleting a project gives nothing back.
create table traffic_month (
  user_id uuid not null references auth."user" (id) on delete cascade,
  -- Its first day.
  month date not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  -- What the user was told of the month's quota: that it is nearly used up, or that it is.
  told text check (told in ('near', 'over')),
  primary key (user_id, month)
);

-- The last batch that was counted of each edge: batches are numbered, and one that comes again is not counted again.
create table traffic_batch (
  edge_id uuid primary key references node (id) on delete cascade,
  -- Chosen by the edge when it starts a new row of numbers.
  series uuid not null,
  number bigint not null
);

-- =====================================================================================================================
-- Work that is still to do, and what was done
-- =====================================================================================================================

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
  detail jsonb not null default '{}',
  -- Who, as they were called then: the user may be gone when somebody reads it.
  user_email text,
  -- By what they proved it; null when nobody was signed in.
  credential text check (credential in ('session', 'key')),
  -- As in the server's log.
  request_id text
);
create index audit_at on audit (at desc, id desc);
create index audit_user on audit (user_id, at desc, id desc);
create index audit_email on audit (user_email, at desc, id desc);
create index audit_target on audit (target, at desc, id desc);
create index audit_action on audit (action text_pattern_ops, at desc, id desc);

-- A line is never changed, and is kept for 400 days at the least.
create function audit_refuses() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is append-only: % is refused', tg_op using errcode = 'insufficient_privilege';
end $$;
create trigger audit_unchanged before update or truncate on audit
  for each statement execute function audit_refuses();
create trigger audit_kept before delete on audit
  for each row when (old.at >= now() - interval '400 days') execute function audit_refuses();
