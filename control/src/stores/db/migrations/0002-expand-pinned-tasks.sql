-- The one node that a task can run on, since what it works on is there; null: any that suits its kind.
alter table task add column pinned_to uuid;
