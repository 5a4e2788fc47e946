import { sql } from "kysely";

/** When the last night began, by the database's clock: at three in the morning, UTC. */
export const lastNight = sql<Date>`
  (date_trunc('day', now() at time zone 'utc' - interval '3 hours') + interval '3 hours') at time zone 'utc'`;
