-- Copies that take the place of others, and what is needed to trust what is told of them.
alter table database_copy
  drop constraint database_copy_purpose_check,
  -- successor: on a better node; once it follows it is the keeper's copy, and the one before ends.
  add constraint database_copy_purpose_check check (purpose in ('keeper', 'move', 'successor')),
  -- By the clock of its node, when it was as is told here: what was said before that comes too late.
  add column told_at timestamptz,
  -- When the server was seen to keep no log for it any more; before that of a copy that ended, it may.
  add column released_at timestamptz;
alter table database
  -- When its copies were looked at last.
  add column copies_looked_at timestamptz;
alter table restore_proof
  -- Why it was begun as the newest whole copy was this one.
  add column base integer,
  -- What the server itself had before: [{ schema, name, counter, rows }], and when, by its clock.
  add column source jsonb,
  add column looked_at timestamptz;
-- One of a copy at a time. The index is the rule.
create unique index restore_proof_slot on restore_proof (copy_id) where verdict = 'pending';
