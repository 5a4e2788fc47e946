-- Which node was asked for the last lines of a container: only that one may answer, and only while somebody waits.
create table log_query (
  request_id uuid primary key,
  node_id uuid not null,
  asked_at timestamptz not null default now()
);
create index log_query_asked_at on log_query (asked_at);
