-- While it lasts one look alone deletes there what no tag names, and nobody gets a token for pushing there.
alter table account_repository add column cleaning_until timestamptz;
-- When it was last looked through while nobody could push there.
alter table account_repository add column looked_at timestamptz;

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
