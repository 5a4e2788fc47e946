create table todo (
  -- Made by the browser, which shows a todo before the server has it.
  id uuid primary key,
  title text not null check (char_length(title) between 1 and 200),
  done boolean not null default false,
  -- Counts the changes of this todo: of two messages about it, the one with the higher number is the newer.
  revision integer not null default 1,
  created_at timestamptz not null default now()
);
