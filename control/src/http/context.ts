import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Log } from "../log.ts";
import type { Config } from "../settings/settings.ts";
import type { Db } from "../stores/db/pool.ts";
import type { Secrets } from "../stores/secrets.ts";
import type { CreateOnce } from "./idempotency.ts";

/** What every endpoint is given; those of a wing get what stands in their wing and below it, too. */
export interface Context {
  config: Config;
  db: Db;
  log: Log;
  secrets: Secrets;
  clock: Clock;
  random: Random;
  createOnce: CreateOnce;
}
