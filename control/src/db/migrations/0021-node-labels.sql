-- Labels that operators give a machine. Plans choose machines by these alone: `labels` is what a machine says of itself.
alter table node add column operator_labels jsonb not null default '{}';
