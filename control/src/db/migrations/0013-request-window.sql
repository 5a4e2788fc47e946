-- Requests per user and minute (of the epoch) of users whose plan limits them, of all replicas together. Of no worth
-- after a few minutes, so a crash of the database may take it.
create unlogged table request_window (
  user_id uuid not null,
  minute integer not null,
  requests integer not null,
  primary key (user_id, minute)
);
create index request_window_minute on request_window (minute);
