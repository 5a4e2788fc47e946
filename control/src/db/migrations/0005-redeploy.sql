-- What outlives a deployment, and the end of one that is not wanted any more.

-- One line per deployment that a user had accepted: what the hourly limit counts. It refers to no deployment and no
-- project, so that removing either gives nothing back. Lines are deleted once they have left the hour.
create table accepted_deploy (
  deployment_id uuid primary key,
  user_id uuid not null references auth."user" (id) on delete cascade,
  at timestamptz not null default now()
);
create index accepted_deploy_user on accepted_deploy (user_id, at desc);
insert into accepted_deploy (deployment_id, user_id, at)
  select deployment.id, project.owner_id, deployment.created_at
  from deployment join project on project.id = deployment.project_id
  where deployment.created_at > now() - interval '1 hour';

-- Set when its removal began; the row goes last.
alter table deployment add column removing_at timestamptz;
create index deployment_removing on deployment (removing_at) where removing_at is not null;
