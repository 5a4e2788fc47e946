-- The node's container engine does not answer: nothing new starts there, and what ended does not start again.
alter table node add column engine_stalled boolean not null default false;
