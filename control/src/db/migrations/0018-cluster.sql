-- Nodes that are emptied, replaced and fenced; replicas that move.

-- A drain moves what runs on a node elsewhere. 'deadline': it ran out of time and what is left needs a person.
alter table node add column drain text not null default 'none' check (drain in ('none', 'draining', 'drained', 'deadline'));
-- Rises with every drain and every cancelling of one, so that what was decided before does nothing any more.
alter table node add column drain_generation bigint not null default 0;
alter table node add column drain_started_at timestamptz;
alter table node add column drain_deadline timestamptz;
-- What the operator said when they last cordoned, drained or fenced it.
alter table node add column reason text;
-- Since when two machines were seen to use this identity; only a new one heals that.
alter table node add column quarantined_at timestamptz;
alter table node add constraint node_drain check (drain = 'none' or not schedulable);

-- What happened to a machine of the fleet, newest last.
create table node_event (
  id bigint generated always as identity primary key,
  node_id uuid not null references node (id) on delete cascade,
  at timestamptz not null default now(),
  -- joined, connected, suspect, unreachable, cordoned, drain-started, fenced, ...
  kind text not null,
  detail text
);
create index node_event_node on node_event (node_id, id);

-- Another replica has taken this one's place: edges are told to leave it, then it goes.
alter table task add column retiring_at timestamptz;
-- Why it was made although its deployment serves already, such as 'node unreachable'; null: with its deployment.
alter table task add column cause text;
-- Labels that its node must have.
alter table task add column node_selector jsonb not null default '{}';

alter table plan add column max_replicas integer not null default 10 check (max_replicas between 1 and 10);
alter table plan add column node_selector jsonb not null default '{}';
