-- How long the manifests of a plan's accounts may ask that a container, once replaced, serves what is open.
alter table plan add column max_drain_seconds integer not null default 300 check (max_drain_seconds between 0 and 3600);
-- Of a task that is to be removed: how long its container may do so. It is only ever shortened; 0: it goes at once.
alter table task add column drain_seconds integer not null default 0 check (drain_seconds >= 0);
