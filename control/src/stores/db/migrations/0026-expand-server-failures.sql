-- How many servers of a database have ended for good since one has served for a while: the next one waits the longer for it.
alter table database add column server_failures integer not null default 0;
