-- Stands for everything that decided what was built; null: not known, or not built. Of the same source and the same key
-- nothing is built again.
alter table deployment add column build_key text check (length(build_key) <= 128);
-- It is built in any case.
alter table deployment add column force_build boolean not null default false;

create index deployment_build on deployment (project_id, source_digest, number desc) where build_key is not null;
