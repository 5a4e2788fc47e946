-- What browsers are told over TLS (RFC 6797): to come back by it alone for so long. Null: nothing.
alter table custom_domain add column hsts_max_age_seconds integer;
alter table custom_domain add column hsts_include_subdomains boolean not null default false;

-- Where a domain redirects to: another one of its project, or the project's production host. Neither: it serves.
alter table custom_domain add column redirect_domain_id uuid references custom_domain (id) on delete set null;
alter table custom_domain add column redirects_home boolean not null default false;
create index custom_domain_redirect on custom_domain (redirect_domain_id) where redirect_domain_id is not null;
