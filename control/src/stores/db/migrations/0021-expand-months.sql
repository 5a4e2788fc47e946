-- What 0017 left for a step that keeps nobody from writing projects.
alter table traffic_day validate constraint traffic_day_project_id_fkey;

-- What visitors looked at by calendar month (UTC): the days of it added up, and the visitors of each day. Whoever asks for
-- all there is reads these, and days of the months that have none.
create table analytics_month (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Its first day.
  month date not null,
  data jsonb not null,
  -- Count by day, YYYY-MM-DD.
  visitors jsonb not null,
  primary key (project_id, channel, month)
);

-- Months of which a day has changed since they were added up last: until that is done, their days are read.
create table analytics_unfolded_month (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  month date not null,
  touched_at timestamptz not null default now(),
  primary key (project_id, channel, month)
);
create index analytics_unfolded_month_month on analytics_unfolded_month (month);

-- Made by the database, in the transaction of the day: no version of control forgets it. A mark that is there is locked:
-- whoever adds the month up meanwhile is waited for, and the mark made again.
create function mark_month_of_analytics() returns trigger language plpgsql as $$
begin
  insert into analytics_unfolded_month (project_id, channel, month)
  select distinct project_id, channel, date_trunc('month', day::timestamp)::date from changed order by 1, 2, 3
  on conflict (project_id, channel, month) do update set touched_at = now();
  return null;
end $$;
create trigger analytics_day_new after insert on analytics_day
  referencing new table as changed for each statement execute function mark_month_of_analytics();
create trigger analytics_day_again after update on analytics_day
  referencing new table as changed for each statement execute function mark_month_of_analytics();
insert into analytics_unfolded_month (project_id, channel, month)
select distinct project_id, channel, date_trunc('month', day::timestamp)::date from analytics_day;
