-- Ends of a container with no steady minute between them, as its agent tells them: see `crashing` of an observation. Null: none.
alter table task add column crashing jsonb;
