-- Whether sessions of a read-only branch can undo it; null: nobody has asked its server since that was decided.
alter table database add column read_only_soft boolean;

-- Nodes are told as well when a branch is not to be written to any more: its server of before is closed from then on.
create or replace trigger database_news
  after insert or delete or update of status, node_id, role_connection_limit, read_only on database
  for each row execute function announce_branch();
