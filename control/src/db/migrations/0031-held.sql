-- Since when a stop covers a deployment that is on its way: it is made ready and does not serve. Null: it serves then.
alter table deployment add column held_at timestamptz;
