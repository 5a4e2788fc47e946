-- Nodes are told anew which databases they may reach whenever something changes by which they do: whoever changes it, the
-- scheduler included. What is announced is the branch, its project, and the node of its data or its server.
create function announce_branch() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    perform pg_notify('svc_branches', concat_ws(' ', old.id, old.project_id, old.node_id));
  end if;
  if tg_op <> 'DELETE' then
    perform pg_notify('svc_branches', concat_ws(' ', new.id, new.project_id, new.node_id));
  end if;
  return null;
end $$;
create function announce_branch_server() returns trigger language plpgsql as $$
begin
  perform pg_notify('svc_branches', concat_ws(' ', new.owner_id, new.project_id, new.node_id));
  return null;
end $$;
create trigger database_news
  after insert or delete or update of status, node_id, role_connection_limit on database
  for each row execute function announce_branch();
create trigger task_database_news
  after insert or update of desired, node_id, epoch, reaped_at on task
  for each row when (new.kind = 'database') execute function announce_branch_server();
