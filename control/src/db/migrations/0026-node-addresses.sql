-- Addresses at which edges may be sent to a node: those that operators name, or the one that it joined from. Null: it
-- joined with a control that did not keep that.
alter table node add column addresses jsonb;
-- Why its agent was turned away last; null once it was let in again.
alter table node add column refusal text;
-- Those that an operator names for the node that joins with a token; null: the one that it joins from.
alter table bootstrap_token add column addresses jsonb;
-- What edges know already stays.
update node set addresses = jsonb_build_array(address) where role = 'node' and address is not null;
