-- What control is known by at a CA. One for each CA: more would be refused.
create table acme_account (
  -- URL of the CA's directory.
  directory text primary key,
  -- PKCS#8 in PEM, sealed.
  key bytea not null,
  -- What the CA calls the account; null until it has it.
  url text,
  created_at timestamptz not null
);

-- A name that edges serve over TLS, or are to serve: what they show for it, and how far the next certificate is.
create table certificate (
  -- A host, or *. and a domain.
  name text primary key,
  -- The name that its owner has for all below it. Orders below one follow one another.
  registered_domain text not null,
  state text not null check (state in ('none', 'ordered', 'challenge_published', 'validating', 'issued', 'failed')),

  -- What is served, while there is something. The key is PKCS#8 in PEM, sealed; the chain PEM, leaf first.
  chain text,
  key bytea,
  -- SHA-256 of the chain in hex: what edges are compared by.
  fingerprint text,
  not_before timestamptz,
  not_after timestamptz,
  -- The directory of the CA that it is from, and how that names it for its advice on renewals; null: it gives none.
  issuer text,
  ari_id text,
  -- When to order the next one, and when to ask the CA whether that has become another time.
  renew_at timestamptz,
  ask_at timestamptz,

  -- The order that is under way.
  directory text,
  order_url text,
  -- The key that it is for, sealed.
  order_key bytea,
  ordered_at timestamptz,
  -- When the order came into its present state.
  since timestamptz,

  -- Orders in a row that came to nothing, those of them that were the CA's fault, and why the last one did.
  failures integer not null default 0 check (failures >= 0),
  ca_failures integer not null default 0 check (ca_failures >= 0),
  failure_code text,
  failure text,
  -- Not to be looked at before.
  next_at timestamptz not null,
  constraint certificate_whole check (
    (chain is null) = (key is null) and (chain is null) = (not_before is null) and (chain is null) = (not_after is null)
    and (chain is null) = (issuer is null) and (chain is null) = (fingerprint is null)),
  constraint certificate_order check ((order_url is null) = (directory is null) and (order_url is null) = (order_key is null))
);
create index certificate_next on certificate (next_at);

-- What a CA finds when it looks whether a name is ours.
create table acme_challenge (
  token text primary key,
  name text not null,
  kind text not null check (kind in ('http-01', 'dns-01')),
  answer text not null,
  -- Null while its order is under way.
  remove_after timestamptz
);

-- Orders that were placed, from before the CA hears of them: CAs take so many in a time.
create table acme_order (
  id bigint generated always as identity primary key,
  directory text not null,
  name text not null,
  registered_domain text not null,
  is_renewal boolean not null,
  at timestamptz not null,
  -- When a certificate came of it; null: none did, or not yet.
  issued_at timestamptz
);
create index acme_order_at on acme_order (directory, at);

-- Whoever tells edges, and whoever orders, looks when something of this changes.
create function announce_certificates() returns trigger language plpgsql as $$
begin
  perform pg_notify('svc_certificates', '');
  return null;
end
$$;
create trigger certificate_news after update of fingerprint or delete on certificate
  for each statement execute function announce_certificates();
create trigger acme_challenge_news after insert or delete on acme_challenge
  for each statement execute function announce_certificates();
create trigger custom_domain_certificates after insert or delete
  on custom_domain for each statement execute function announce_certificates();
-- Looks at DNS write whether or not they find something else, and each announcement has every replica read all names.
create trigger custom_domain_certificates_change after update on custom_domain for each row
  when ((old.domain, old.status, old.routing_target, old.dns_status)
    is distinct from (new.domain, new.status, new.routing_target, new.dns_status))
  execute function announce_certificates();
