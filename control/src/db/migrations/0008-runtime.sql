-- How containers fare once they serve, and whose log an agent's answer is.

-- What the timeline last said of a container that serves: null while all is well.
alter table task add column trouble text check (trouble in ('crashed', 'ended'));
-- Restarts that the timeline has told of, and how many lines that took.
alter table task add column noted_restarts integer not null default 0;
alter table task add column notes integer not null default 0;

-- Null from an agent of an earlier version, which only knew of containers that run.
alter table log_reply add column state text check (state in ('running', 'exited', 'absent'));
-- How it ended, when it did so by itself.
alter table log_reply add column exit jsonb;
