-- A slug that a project asked for and gave up before it was its own: what was made for it goes at once, and what
-- redirected before does so again.

-- The host was made for the slug that the project is about to get.
alter table site_host add column for_next_slug boolean not null default false;
-- Until when the host redirected before the slug that the project is about to get took it back; null: it did not.
alter table site_host add column redirected_until timestamptz;
