-- Repositories of the cluster's registry into which accounts push images of their own.
create table account_repository (
  user_id uuid not null references auth."user" (id) on delete cascade,
  -- Behind what the account's repositories begin with.
  name text not null,
  created_at timestamptz not null default now(),
  -- When the last token that was given for pushing there has ended, whatever the clocks say.
  push_until timestamptz not null,
  primary key (user_id, name)
);
