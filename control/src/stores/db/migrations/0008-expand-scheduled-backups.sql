-- Null: somebody asked for it. Otherwise the schedule did, which keeps so many complete ones of its channel.
alter table database_backup add column scheduled_keep integer check (scheduled_keep > 0);

-- Whose databases are backed up each night without anybody asking.
create table database_backup_schedule (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  keep integer not null check (keep > 0),
  -- When the newest night began that has had its turn, or was over before the schedule was made.
  night timestamptz not null,
  -- Why that night has no backup; null: nothing stood against it.
  problem text,
  primary key (project_id, channel)
);
