-- What a container or a build may write to its node's disk, in MiB. 0: of before that was bounded.
alter table task add column storage_mb integer not null default 0;
-- What runs gets what its owner's plan gives, as with a change of plan.
update task set storage_mb = plan.storage_mb
  from project
  left join account on account.user_id = project.owner_id
  join plan on plan.id = account.plan_id or (account.plan_id is null and plan.is_default)
  where project.id = task.project_id
    and task.kind = 'serve' and task.desired = 'running' and task.reaped_at is null;
