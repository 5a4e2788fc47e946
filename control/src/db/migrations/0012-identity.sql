-- Who may come in: invitations, the waiting list, the first administrator, the Git host, and guessing held back.

create table invite (
  id uuid primary key,
  -- Lower case. The code makes an account with this address and no other.
  email text not null,
  -- SHA-256 of the code, which is in no table.
  hash bytea not null unique,
  created_by uuid references auth."user" (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- Taken by a sign-up. One that came to nothing leaves user_id null, and gives the code back after a minute.
  claimed_at timestamptz,
  -- Set once the account exists, and kept when it goes.
  used_at timestamptz,
  user_id uuid references auth."user" (id) on delete set null
);
-- A newer invitation replaces the one before.
create unique index invite_open_email on invite (email) where used_at is null;

create table waitlist_entry (
  -- Lower case.
  email text primary key,
  created_at timestamptz not null default now(),
  invited_at timestamptz
);

-- The one link that makes the first administrator; a newer one replaces it.
create table claim_link (
  "only" boolean primary key default true check ("only"),
  hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);

-- How much of something is left to somebody: fills up with time, is taken from by each attempt.
create table attempt_bucket (
  -- What and whose; never an address or a name in the clear.
  key text primary key,
  tokens double precision not null,
  at timestamptz not null
);
create index attempt_bucket_at on attempt_bucket (at);

-- An account elsewhere belongs to one user here.
create unique index "account_provider_uidx" on auth."account" ("providerId", "accountId")
  where "providerId" <> 'credential';
