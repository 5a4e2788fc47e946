-- A new edge that has not been whole yet: nobody waits for it, and nothing sends visitors there.
alter table node add column entering boolean not null default false;
