import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { expireAnalytics, foldDays } from "./fold.ts";
import { foldMonths } from "./fold-months.ts";
import { destroySalts, keepSalts } from "./salts.ts";

/** After midnight every site has a day that is over. What these do not get to, the next call does. */
const roundsMax = 100;

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
  for (const fold of [foldDays, foldMonths])
    for (let rounds = 0; rounds < roundsMax && (await fold(deps)) > 0; rounds += 1);
  await expireAnalytics(deps);
}
