-- Names of their own that tenants attach to projects. Several projects may claim a name; one at most has proven it.
create table custom_domain (
  id uuid primary key,
  project_id uuid not null references project (id) on delete cascade,
  -- Lower-case A-labels, no trailing dot.
  domain text not null,
  status text not null check (status in ('pending', 'verified', 'failed')),
  routing_target text not null check (routing_target in ('production', 'preview', 'dev', 'disabled')),
  -- 128 random bits, per claim: what an earlier claim had put into DNS proves nothing of this one.
  txt_token text not null,
  -- Why it is not verified (any more), for people.
  reason text,
  -- Null: nobody has looked yet.
  dns_status text check (dns_status in ('direct', 'proxied', 'unresolved', 'not-pointing')),
  created_at timestamptz not null,
  -- Until when the proof is looked for; null once it was found or given up.
  verify_until timestamptz,
  verified_at timestamptz,
  last_checked_at timestamptz,
  -- Null: nobody looks by themselves.
  next_check_at timestamptz,
  -- Since when the proof of a verified name is gone; null: it stands.
  failing_since timestamptz,
  -- How many mails have told the owner so since then, and when the last one did.
  warnings integer not null default 0,
  warned_at timestamptz,
  unique (project_id, domain)
);
create unique index custom_domain_verified on custom_domain (domain) where status = 'verified';
create index custom_domain_name on custom_domain (domain);
create index custom_domain_due on custom_domain (next_check_at) where next_check_at is not null;

-- Hosts of custom domains stand beside those that are made of slugs, so that no name serves two projects. Null: one of a slug.
alter table site_host add column domain_id uuid references custom_domain (id) on delete cascade;
create index site_host_domain on site_host (domain_id) where domain_id is not null;

-- The www of a custom domain redirects for as long as that is attached.
alter table site_host drop constraint site_host_redirect;
alter table site_host add constraint site_host_redirect check (
  (domain_id is not null or (redirect_to is null) = (redirect_until is null)) and redirect_to is distinct from host);
