create table book (
  id bigint generated always as identity primary key,
  title text not null check (char_length(title) between 1 and 120),
  author text not null check (char_length(author) <= 80),
  created_at timestamptz not null default now()
);
