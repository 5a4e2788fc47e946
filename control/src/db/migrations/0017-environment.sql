-- Variables of one channel only: a deployment of it gets these over the project's own.
create table env_overlay (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  key text not null,
  -- Sealed.
  value bytea not null,
  primary key (project_id, channel, key)
);
