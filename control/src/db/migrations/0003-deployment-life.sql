-- Asking for an end, and where a deployment's artifact and environment come from.

-- Somebody asked for the end of a deployment that is on its way; the worker carries it out.
alter table deployment add column cancel_requested_at timestamptz;

-- Made of another deployment's artifact, without a build.
alter table deployment add column origin text check (origin in ('rollback', 'promote'));
alter table deployment add column origin_deployment_id uuid;

-- Sealed JSON object: variables of the env files that were packed with the source. They travel with the artifact,
-- under whatever the project's own environment is by then.
alter table deployment add column file_env bytea;
