-- What visitors looked at, by hour, as each edge counted it. An edge sends a row as often as it changes, and each takes the
-- place of the one before.
create table analytics_hour (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- Start of the hour, UTC.
  hour timestamptz not null,
  -- No foreign key: what an edge counted outlives it.
  edge_id uuid not null,
  -- Chosen by the edge: another one is of other visits.
  series uuid not null,
  seq bigint not null,
  data jsonb not null,
  -- As encodeUniques of the package proto writes them.
  visitors bytea not null,
  primary key (project_id, channel, hour, edge_id, series)
);
create index analytics_hour_hour on analytics_hour (hour);

-- The same by day, once that is over: of all edges, and without what tells visitors apart.
create table analytics_day (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  -- UTC.
  day date not null,
  data jsonb not null,
  visitors integer not null check (visitors >= 0),
  primary key (project_id, channel, day)
);

-- Days of which an hour has changed since they were added up last.
create table analytics_unfolded (
  project_id uuid not null references project (id) on delete cascade,
  channel text not null check (channel in ('production', 'preview', 'dev')),
  day date not null,
  touched_at timestamptz not null default now(),
  primary key (project_id, channel, day)
);
create index analytics_unfolded_day on analytics_unfolded (day);

-- What edges make the keys of visitors with, sealed: one for each day, UTC. Destroyed with the row, two hours after its day.
create table analytics_salt (
  day date primary key,
  salt bytea not null
);
