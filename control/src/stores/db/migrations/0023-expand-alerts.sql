-- Something that is wrong with a project, or was: one row for each event and what it is about.
create table alert (
  project_id uuid not null references project (id) on delete cascade,
  -- As the API calls it.
  event text not null,
  -- A channel, a domain, a job: empty where the project itself is meant.
  subject text not null,
  is_on boolean not null,
  -- When it last began, or was over.
  changed_at timestamptz not null,
  -- For people: why it is on.
  detail text not null,
  -- Since when it has been on, as far as its owner was told. Null: they know of nothing.
  told_since timestamptz,
  -- The work item that said so last: one that was given up and is taken up again later has an old story.
  word_id bigint not null,
  -- How often its owner was told that it begins, since a time that is an hour ago at most when the next one is counted.
  begins integer not null default 0,
  begins_since timestamptz,
  primary key (project_id, event, subject)
);

-- What the owner wants to be told, and how much has been told of late. A project without a row has what is usual.
create table alert_setting (
  project_id uuid primary key references project (id) on delete cascade,
  enabled boolean not null default true,
  -- By event and channel: what differs from what is usual.
  choices jsonb not null default '{}',
  -- The hour whose messages are counted.
  hour_at timestamptz,
  hour_messages integer not null default 0,
  -- What goes into the next digest, and how much more there was than that has room for.
  waiting jsonb not null default '[]',
  waiting_more integer not null default 0,
  -- When somebody looks again, by a work item that is queued.
  look_at timestamptz
);

-- Where messages go besides mail.
create table alert_webhook (
  -- Another one with each new address: what was on its way to the one before is not delivered to it.
  id uuid primary key default gen_random_uuid(),
  project_id uuid not null unique references project (id) on delete cascade,
  url text not null,
  secret bytea not null,
  -- The secret before the last rotation: signs as well until then.
  previous_secret bytea,
  previous_until timestamptz,
  created_at timestamptz not null default now(),
  rotated_at timestamptz,
  -- How the last try of any delivery went. Without a status there was no answer.
  last_at timestamptz,
  last_ok boolean,
  last_status integer,
  last_problem text,
  -- Since when no try has succeeded; null: the last one did.
  failing_since timestamptz,
  -- Since when nothing is sent there any more.
  disabled_at timestamptz
);

-- One message on its way to a webhook. Its id is what the receiver knows it by, over all tries.
create table alert_delivery (
  id uuid primary key default gen_random_uuid(),
  webhook_id uuid not null references alert_webhook (id) on delete cascade,
  -- The exact bytes that are signed.
  body text not null,
  tries integer not null default 0,
  created_at timestamptz not null default now(),
  -- Null: it is on its way.
  ended_at timestamptz,
  ok boolean
);
create index alert_delivery_webhook on alert_delivery (webhook_id);
