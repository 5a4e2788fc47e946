-- Suspension, and the way out of it.

-- Rises whenever a suspension or a resumption is asked for, so that what was decided before then does nothing any more.
alter table project add column suspension_number bigint not null default 0;
-- When the resumption that is under way was asked for; null: none is. Until it is over the project is suspended.
alter table project add column resuming_at timestamptz;
-- Since when no edge sends visitors to the containers of the suspended project; null: one still may.
alter table project add column unrouted_at timestamptz;
-- Until when the project runs whatever its owner has used of the month's quota, because an administrator said so.
alter table project add column quota_waived_until timestamptz;
alter table project add constraint project_resuming check (resuming_at is null or suspended_at is not null);
create index project_suspended on project (owner_id) where suspended_at is not null;

-- What the user was told of the month's quota: that it is nearly used up, or that it is.
alter table traffic_month add column told text check (told in ('near', 'over'));
