-- Why the node's container engine must not build Dockerfiles of users; null: it may.
alter table node add column dockerfile_problem text;
