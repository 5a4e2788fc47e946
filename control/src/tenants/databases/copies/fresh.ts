import { sql } from "kysely";

/** How long ago a copy that follows may have been told to have everything: its node tells every minute. */
export const freshSeconds = 300;

/** Of a row of `database_copy`: it could take the place of the branch's own data, and next to nothing would be missing. */
export const isFollowing = sql<boolean>`(
  database_copy.state = 'following' and database_copy.covered_at >= now() - ${sql.lit(freshSeconds)} * interval '1 second'
  and jsonb_array_length(database_copy.bases) > 0)`;
