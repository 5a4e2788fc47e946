-- Renaming a project without a gap: hosts of the next slug serve beside those of the present one until every edge
-- has them, and then the old ones redirect for a while.

-- The slug that the project is about to get; null when no rename is under way.
alter table project add column next_slug text;
-- When it was asked for: edges that do not answer are waited for from then on.
alter table project add column next_slug_at timestamptz;

-- The slug that the name was made of; null: that of the project.
alter table site_host add column slug text;
-- Where visitors are sent instead; null: the host serves. A redirect goes together with its target.
alter table site_host add column redirect_to text references site_host (host) on delete cascade;
alter table site_host add column redirect_until timestamptz;
alter table site_host add constraint site_host_redirect
  check ((redirect_to is null) = (redirect_until is null) and redirect_to is distinct from host);
create index site_host_redirect_to on site_host (redirect_to) where redirect_to is not null;
create index site_host_redirect_until on site_host (redirect_until) where redirect_until is not null;
