-- When a container was first seen to serve; null: it never did, as far as anybody saw. What never did is tried again soon,
-- and more and more rarely.
alter table task add column served_at timestamptz;
-- What runs from before this column is not blamed for what it may have done well.
update task set served_at = created_at where kind = 'serve' and desired = 'running' and reaped_at is null;
