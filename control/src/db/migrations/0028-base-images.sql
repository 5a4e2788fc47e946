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
create index on base_image (used_at);
create index on base_image (owner_id);
