-- A removed machine is out of the fleet for ever, and another one may have its name.
alter table node drop constraint node_name_key;
create unique index node_name on node (name) where lifecycle != 'removed';
