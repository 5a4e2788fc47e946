/**
 * Tables of the journal. Messages are kept as protobuf bytes, so that fields this version does not know
 * survive a downgrade, and sealed: they hold the environment of tenants' containers. `progress` is apart from `placement` because it changes often and is small.
 */
export const schema = `
create table if not exists setting (
  key text primary key,
  value text not null
) strict;
create table if not exists placement (
  id text primary key,
  message blob not null,
  orphan integer not null
) strict;
create table if not exists progress (
  id text primary key references placement (id) on delete cascade,
  status blob not null,
  memory text not null
) strict;
create table if not exists run (
  id text primary key,
  offer blob not null,
  record text not null
) strict;
create table if not exists image (
  reference text not null,
  owner text not null,
  used_at integer not null,
  primary key (reference, owner)
) strict;
`;

/** Raised when the tables change; an older agent refuses a newer journal. */
export const schemaVersion = 2;
/** Journals of versions before this one hold messages in the clear. */
export const sealedSince = 2;
