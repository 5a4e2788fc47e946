import type { Db } from "../../../../stores/db/pool.ts";
import { readClockLag } from "../../../jobs/clock/lag.ts";
import type { JobHealth } from "./rules.ts";

export async function readJobHealth(db: Db): Promise<JobHealth> {
  const [counts, lagSeconds] = await Promise.all([
    db
      .selectFrom("job")
      .select(({ fn, eb }) => [
        fn.countAll<number>().filterWhere("next_fire_at", "is not", null).as("scheduled"),
        fn
          .countAll<number>()
          .filterWhere(eb("pause_reason", "is not", null))
          .as("paused"),
      ])
      .executeTakeFirstOrThrow(),
    readClockLag(db),
  ]);
  return { ...counts, lagSeconds };
}
