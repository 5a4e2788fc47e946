-- upgrade: its server gets another image, over the volume that it has.
alter table database_change
  drop constraint database_change_kind_check,
  add constraint database_change_kind_check check (kind in ('restore', 'move', 'upgrade')),
  -- How often its tenant was kept out, and since when it is this time.
  add column freezes integer not null default 0,
  add column frozen_at timestamptz,
  -- Why the tenant is let in again, before that is done; null: it is not. Whoever goes on has to find null here.
  add column undoing text,
  add column cancelled boolean not null default false,
  -- Of an upgrade: what the server is to run in.
  add column image text;
alter table node add column drain_moves_databases boolean not null default false;
