-- Manifests of which the registry said that they were pushed into a repository of an account, by tag or by digest alone,
-- until they were looked at.
create table account_push (
  user_id uuid not null,
  name text not null,
  digest text not null,
  primary key (user_id, name, digest),
  foreign key (user_id, name) references account_repository (user_id, name) on delete cascade
);
