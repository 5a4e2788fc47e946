-- What is set aside on a node for one container, apart from what it may take at most. Null in a plan: the part of its
-- limits that the version of control takes it for. Null in a task: of before there was a difference, and all of its limits.
alter table plan add column reserved_memory_mb integer, add column reserved_cpu_millicores integer;
alter table task add column reserved_memory_mb integer, add column reserved_cpu_millicores integer;
-- Less memory than the node's floor is really left, whatever is set aside.
alter table node add column memory_short boolean not null default false;
