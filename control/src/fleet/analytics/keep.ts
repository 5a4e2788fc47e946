import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { expireAnalytics, foldDays } from "./fold.ts";
import { keepSalts } from "./salts.ts";

/** Makes and destroys salts, adds days up, and deletes hours that are in them for good. Each may be repeated. */
export async function keepAnalytics(deps: { clock: Clock; db: Db; secrets: Secrets; log: Log }): Promise<void> {
  const destroyed = await keepSalts(deps);
  if (destroyed > 0) deps.log.info({ destroyed }, "salts of visitors are destroyed");
  await foldDays(deps);
  await expireAnalytics(deps);
}
