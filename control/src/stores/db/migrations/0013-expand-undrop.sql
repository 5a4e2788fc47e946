-- What a branch that was dropped comes back with, besides what is kept of it already.
alter table dropped_database
  add column pending_secret bytea,
  add column read_only boolean not null default false,
  add column read_only_soft boolean,
  -- When the branch was made; null: it was dropped before that was kept.
  add column created_at timestamptz;
alter table database_volume
  -- An operator has said that it stays, whenever it might go.
  add column kept boolean not null default false,
  -- What it took on the disk when another took its place, or its branch was dropped; null: nobody knows.
  add column bytes bigint;
alter table database_copy add column kept boolean not null default false;
-- Of a restore: the branch takes that volume of its own, which it had before; null: it comes out of a copy.
alter table database_change add column volume_generation integer;
