-- Administration: users on their way out, an audit log that nobody rewrites, and indexes for what administrators count.

-- Somebody whose deletion began: their keys and sessions are gone, their address is free, their projects are being
-- torn down. The user's row goes last, and this one with it.
create table user_deletion (
  user_id uuid primary key references auth."user" (id) on delete cascade,
  requested_by uuid,
  requested_at timestamptz not null default now()
);

-- Lines from before know nothing of the following; there may be too many to look it up while everybody waits.
-- Who, as they were called then: the user may be gone when somebody reads it.
alter table audit add column user_email text;
-- By what they proved it; null when nobody was signed in.
alter table audit add column credential text check (credential in ('session', 'key'));
-- As in the server's log.
alter table audit add column request_id text;
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

create index deployment_newest on deployment (project_id, number desc);
create index deployment_status on deployment (status);
create index deployment_created on deployment (created_at);
