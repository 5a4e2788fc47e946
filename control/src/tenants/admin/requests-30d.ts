import { type RawBuilder, sql } from "kysely";

/**
 * A scalar subquery: requests of the last thirty times 24 hours of a project. Whole days, and hours of the first one
 * only, because a list asks this of each of its lines.
 *
 * @param projectId an expression of the query around it
 */
export const requests30d = (projectId: RawBuilder<unknown>): RawBuilder<unknown> => sql`(
  select sum(requests) from (
    select requests from traffic_day
    where project_id = ${projectId} and day > (now() at time zone 'UTC' - interval '30 days')::date
    union all
    select requests from traffic_hour
    where project_id = ${projectId} and hour >= now() - interval '30 days'
      and hour < date_trunc('day', now() - interval '30 days', 'UTC') + interval '1 day'
  ) as counted)`;
