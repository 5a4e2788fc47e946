import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { expireAnalytics, foldDays } from "./fold.ts";
import { foldMonths } from "./fold-months.ts";
import { destroySalts, keepSalts } from "./salts.ts";

/**
 * Makes and destroys salts, adds days and months up, and deletes hours that are in them for good. Each may be repeated.
 *
 * @param deps.isWanted whether visitors are to be counted; without that every salt is destroyed
 */
export async function keepAnalytics(deps: {
  clock: Clock;
  db: Db;
  secrets: Secrets;
  isWanted: boolean;
  log: Log;
}): Promise<void> {
  const destroyed = deps.isWanted ? await keepSalts(deps) : await destroySalts(deps.db);
  if (destroyed > 0) deps.log.info({ destroyed }, "salts of visitors are destroyed");
  await foldDays(deps);
  await foldMonths(deps);
  await expireAnalytics(deps);
}
