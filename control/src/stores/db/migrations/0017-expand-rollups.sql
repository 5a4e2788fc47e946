-- What a channel got per day (UTC), kept for ever. Hours go after a time.
create table traffic_day (
  project_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  day date not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  s2xx bigint not null default 0,
  s3xx bigint not null default 0,
  s4xx bigint not null default 0,
  s5xx bigint not null default 0,
  primary key (project_id, channel, day)
);

-- What all projects got together per hour, kept for ever, those that are gone included. It names nobody.
create table traffic_total_hour (
  hour timestamptz primary key,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0
);

-- What containers took, per hour and day (UTC). Channel 'all' is the whole project: its peak is none of its channels'
-- peaks added up. Averages are sums by moments, which are half-minutes in which something ran.
create table resource_hour (
  project_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev', 'all')),
  hour timestamptz not null,
  moments integer not null,
  samples integer not null,
  -- Percent of one core.
  cpu_sum double precision not null,
  cpu_max double precision not null,
  memory_sum double precision not null,
  memory_max bigint not null,
  primary key (project_id, channel, hour)
);
create index resource_hour_hour on resource_hour (hour);
create table resource_day (
  project_id uuid not null,
  channel text not null check (channel in ('production', 'preview', 'dev', 'all')),
  day date not null,
  moments integer not null,
  samples integer not null,
  cpu_sum double precision not null,
  cpu_max double precision not null,
  memory_sum double precision not null,
  memory_max bigint not null,
  primary key (project_id, channel, day)
);

-- Days and totals are kept by the database itself, in the transaction of the hours: no batch is in the one and not in
-- the other, whichever version of control counts it. One batch after another: hours that are known and hours that begin
-- are two triggers' work, so batches of several edges could wait for one another in a circle. It is the last step of a
-- batch. Sums stay where they are once nobody could read more. Hours that go change neither.
create function roll_up_new_traffic() returns trigger language plpgsql as $$
declare
  most constant numeric := 9007199254740991;
begin
  perform pg_advisory_xact_lock(hashtextextended('traffic is rolled up', 0));
  insert into traffic_day as known (project_id, channel, day, requests, bytes_in, bytes_out, s2xx, s3xx, s4xx, s5xx)
  select project_id, channel, (hour at time zone 'UTC')::date,
    least(sum(added.requests::numeric), most), least(sum(added.bytes_in::numeric), most),
    least(sum(added.bytes_out::numeric), most), least(sum(added.s2xx::numeric), most),
    least(sum(added.s3xx::numeric), most), least(sum(added.s4xx::numeric), most),
    least(sum(added.s5xx::numeric), most)
  from counted added
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (project_id, channel, day) do update set
    requests = least(known.requests::numeric + excluded.requests, most),
    bytes_in = least(known.bytes_in::numeric + excluded.bytes_in, most),
    bytes_out = least(known.bytes_out::numeric + excluded.bytes_out, most),
    s2xx = least(known.s2xx::numeric + excluded.s2xx, most),
    s3xx = least(known.s3xx::numeric + excluded.s3xx, most),
    s4xx = least(known.s4xx::numeric + excluded.s4xx, most),
    s5xx = least(known.s5xx::numeric + excluded.s5xx, most);
  insert into traffic_total_hour as known (hour, requests, bytes_in, bytes_out)
  select hour, least(sum(added.requests::numeric), most), least(sum(added.bytes_in::numeric), most),
    least(sum(added.bytes_out::numeric), most)
  from counted added
  group by 1 order by 1
  on conflict (hour) do update set
    requests = least(known.requests::numeric + excluded.requests, most),
    bytes_in = least(known.bytes_in::numeric + excluded.bytes_in, most),
    bytes_out = least(known.bytes_out::numeric + excluded.bytes_out, most);
  return null;
end $$;
-- Added and taken away in one list, and not joined: the plan of a statement is kept, and one that was made for a batch of
-- hours that all began would compare each of ten thousand with each.
create function roll_up_more_traffic() returns trigger language plpgsql as $$
declare
  most constant numeric := 9007199254740991;
begin
  perform pg_advisory_xact_lock(hashtextextended('traffic is rolled up', 0));
  insert into traffic_day as known (project_id, channel, day, requests, bytes_in, bytes_out, s2xx, s3xx, s4xx, s5xx)
  select project_id, channel, (hour at time zone 'UTC')::date,
    least(sum(sign * requests), most), least(sum(sign * bytes_in), most), least(sum(sign * bytes_out), most),
    least(sum(sign * s2xx), most), least(sum(sign * s3xx), most), least(sum(sign * s4xx), most),
    least(sum(sign * s5xx), most)
  from (select 1::numeric as sign, * from counted union all select -1::numeric as sign, * from before) as changed
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (project_id, channel, day) do update set
    requests = least(known.requests::numeric + excluded.requests, most),
    bytes_in = least(known.bytes_in::numeric + excluded.bytes_in, most),
    bytes_out = least(known.bytes_out::numeric + excluded.bytes_out, most),
    s2xx = least(known.s2xx::numeric + excluded.s2xx, most),
    s3xx = least(known.s3xx::numeric + excluded.s3xx, most),
    s4xx = least(known.s4xx::numeric + excluded.s4xx, most),
    s5xx = least(known.s5xx::numeric + excluded.s5xx, most);
  insert into traffic_total_hour as known (hour, requests, bytes_in, bytes_out)
  select hour, least(sum(sign * requests), most), least(sum(sign * bytes_in), most), least(sum(sign * bytes_out), most)
  from (select 1::numeric as sign, * from counted union all select -1::numeric as sign, * from before) as changed
  group by 1 order by 1
  on conflict (hour) do update set
    requests = least(known.requests::numeric + excluded.requests, most),
    bytes_in = least(known.bytes_in::numeric + excluded.bytes_in, most),
    bytes_out = least(known.bytes_out::numeric + excluded.bytes_out, most);
  return null;
end $$;

-- Whoever counts at this moment is waited for, and the next one counts with the triggers: no hour is missed or added twice.
lock table traffic_hour in share row exclusive mode;
create trigger traffic_hour_new after insert on traffic_hour
  referencing new table as counted for each statement execute function roll_up_new_traffic();
create trigger traffic_hour_more after update on traffic_hour
  referencing old table as before new table as counted for each statement execute function roll_up_more_traffic();
insert into traffic_day (project_id, channel, day, requests, bytes_in, bytes_out, s2xx, s3xx, s4xx, s5xx)
select project_id, channel, (hour at time zone 'UTC')::date,
  least(sum(requests), 9007199254740991), least(sum(bytes_in), 9007199254740991),
  least(sum(bytes_out), 9007199254740991), least(sum(s2xx), 9007199254740991),
  least(sum(s3xx), 9007199254740991), least(sum(s4xx), 9007199254740991),
  least(sum(s5xx), 9007199254740991)
from traffic_hour group by 1, 2, 3;
insert into traffic_total_hour (hour, requests, bytes_in, bytes_out)
select hour, least(sum(requests), 9007199254740991), least(sum(bytes_in), 9007199254740991),
  least(sum(bytes_out), 9007199254740991)
from traffic_hour group by 1;

-- Last of all: a foreign key keeps everybody from writing projects until the step ends, and adding hours up takes as long
-- as there are hours. Days have the projects of their hours, which nobody could delete meanwhile; a step of its own looks
-- again, and locks nobody out.
alter table traffic_day
  add constraint traffic_day_project_id_fkey foreign key (project_id) references project (id) on delete cascade not valid;
alter table resource_hour
  add constraint resource_hour_project_id_fkey foreign key (project_id) references project (id) on delete cascade;
alter table resource_day
  add constraint resource_day_project_id_fkey foreign key (project_id) references project (id) on delete cascade;
