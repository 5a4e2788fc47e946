-- What visitors asked for, as the edges counted it.

create table traffic_hour (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Start of the hour, UTC.
  hour timestamptz not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  s2xx bigint not null default 0,
  s3xx bigint not null default 0,
  s4xx bigint not null default 0,
  s5xx bigint not null default 0,
  primary key (project_id, channel, hour)
);
create index traffic_hour_hour on traffic_hour (hour);

-- The same per user and calendar month (UTC). What quotas are measured by: deleting a project gives nothing back.
create table traffic_month (
  user_id uuid not null references auth."user" (id) on delete cascade,
  -- Its first day.
  month date not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  primary key (user_id, month)
);

-- The last batch that was counted of each edge: batches are numbered, and one that comes again is not counted again.
create table traffic_batch (
  edge_id uuid primary key references node (id) on delete cascade,
  -- Chosen by the edge when it starts a new row of numbers.
  series uuid not null,
  number bigint not null
);
