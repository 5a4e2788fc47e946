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

-- The key of all that is off-site of a branch's copies, sealed. Without it nobody reads that, so it goes with the branch.
create table offsite_key (
  -- No foreign key: a branch that was dropped comes back under its id.
  database_id uuid primary key,
  secret bytea not null
);

-- A copy of a branch in a bucket, as far as it has followed the one on a node.
create table offsite_copy (
  -- What the names of its objects begin with.
  id uuid primary key,
  -- No foreign keys: it outlives the copy, and its branch for as long as that can come back.
  copy_id uuid not null,
  database_id uuid not null,
  place text not null,
  -- Everything until then is in it, and it can be fetched; null: nothing is whole yet.
  covered_at timestamptz,
  -- What the bucket itself says of that: it is not told each time that there is nothing new.
  manifest_at timestamptz,
  -- Where that was in the log, and what whole copies there were.
  position text,
  bases jsonb not null default '[]',
  -- Why the last try came to nothing; null: it did not, or is under way.
  problem text,
  touched_at timestamptz not null default now(),
  unique (copy_id, place)
);
create index offsite_copy_database on offsite_copy (database_id);

-- What is in it, from before it is put there.
create table offsite_object (
  id uuid primary key,
  offsite_copy_id uuid not null references offsite_copy (id),
  -- [{ path, version, at, length }]: parts of the copy's files, one after the other.
  parts jsonb not null,
  created_at timestamptz not null default now(),
  -- Null: it may be there.
  put_at timestamptz,
  -- Since when nothing in it is of use; null: something is.
  useless_at timestamptz
);
create index offsite_object_copy on offsite_object (offsite_copy_id);
create index offsite_object_useless on offsite_object (useless_at) where useless_at is not null;

-- The copy was brought from there; without `covered_at` and a problem it is on its way.
alter table database_copy add column fetched_from uuid;
