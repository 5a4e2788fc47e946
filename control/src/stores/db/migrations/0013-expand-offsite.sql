-- The key of a backup's file outside of this site, sealed; null: none was made. It goes with the backup, and with it whatever is
-- still in a bucket can be read by nobody.
alter table database_backup add column offsite_secret bytea;

-- What is, or is on its way to be, in a bucket outside of this site: a file in pieces. The row is what knows their names.
create table offsite_file (
  -- What the names of its objects begin with.
  id uuid primary key,
  -- Null: the backup is no more, and so is the file to be.
  backup_id uuid references database_backup (id) on delete set null,
  -- Which bucket it is in.
  place text not null,
  piece_bytes integer not null check (piece_bytes > 0),
  -- How many pieces are there, from the first on. The next one may be as well.
  pieces integer not null default 0 check (pieces >= 0),
  -- SHA-256 of all of it, in hex; null until the last piece is there.
  digest text,
  complete_at timestamptz,
  -- Why the last try came to nothing; null: it did not, or is under way.
  problem text,
  -- When something was tried or done with it last.
  touched_at timestamptz not null default now(),
  constraint offsite_file_whole check ((complete_at is null) = (digest is null)),
  unique (backup_id, place)
);
create index offsite_file_open on offsite_file (touched_at) where complete_at is null or backup_id is null;
