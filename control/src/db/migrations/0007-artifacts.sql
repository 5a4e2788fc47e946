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

-- The registry holds the artifact no more: history only.
alter table deployment add column artifact_removed_at timestamptz;
create index deployment_live on deployment (project_id)
  where status in ('queued', 'building', 'deploying', 'running', 'stopped');

-- Below its free-space floor: takes no new work.
alter table node add column disk_full boolean not null default false;

create index log_chunk_age on log_chunk (created_at);

-- What is there already: what deployments name, and whatever their builds pushed under the ids of their tasks.
insert into artifact (id, project_id, repository, kind, digest, size_bytes, created_at, ended_at)
  select gen_random_uuid(), project_id, repository, kind, digest, max(size_bytes), min(created_at), min(created_at)
  from (
    select project_id, source_repository as repository, 'source' as kind, source_digest as digest,
      source_size as size_bytes, created_at
    from deployment where source_repository is not null and source_digest is not null
    union all
    select project_id, artifact_repository, artifact_kind, artifact_digest, artifact_size, created_at
    from deployment where artifact_kind is not null and artifact_digest is not null and image_registry is null
  ) known
  where starts_with(repository, 'svc/' || project_id || '/')
  group by project_id, repository, kind, digest;
insert into artifact (id, project_id, repository, kind, created_at)
  select id, project_id, spec ->> 'targetRepository', case when spec -> 'recipe' ? 'static' then 'bundle' else 'image' end,
    created_at
  from task where kind = 'build' and spec ? 'targetRepository';
