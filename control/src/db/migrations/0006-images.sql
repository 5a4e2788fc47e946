-- Logins of private registries, and what is known of the layers of copied images.

create table registry_credential (
  project_id uuid not null references project (id) on delete cascade,
  -- As registries are compared: lower case, Docker Hub under one name, `:port` unless it is 443.
  host text not null,
  -- Sealed JSON object {username, secret}, bound to project and host.
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, host)
);

-- Layers that were unpacked once on their way into the project's repository, so that nobody has to do it again to
-- know how large an image is.
create table image_layer (
  project_id uuid not null references project (id) on delete cascade,
  digest text not null,
  unpacked_bytes bigint not null,
  used_at timestamptz not null default now(),
  primary key (project_id, digest)
);
