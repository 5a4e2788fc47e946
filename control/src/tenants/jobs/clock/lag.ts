import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** For how many seconds the job that is due longest has been so; 0 when none is. */
export async function readClockLag(db: Db): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select coalesce(greatest(extract(epoch from clock_timestamp() - min(next_fire_at)), 0), 0)::float8 as seconds
    from job where next_fire_at is not null`.execute(db);
  return rows[0]?.seconds ?? 0;
}
