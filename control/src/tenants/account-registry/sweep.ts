import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import { type ContentsDeps, lookThrough } from "./contents.ts";
import { cleaningMs, listLeft } from "./store.ts";

const perRound = 100;
/** One look; it has to end before what it claimed does. */
const lookMs = cleaningMs * 0.75;

/**
 * Looks through repositories of accounts since whose last push nobody has, once nobody can push there: what no tag names
 * any more goes, and so does the name of one without tags. Returns how many there were.
 */
export async function sweepAccountRepositories(
  { clock, log, ...deps }: ContentsDeps & { clock: Clock; log: Log },
  signal: AbortSignal,
): Promise<number> {
  const left = await listLeft(deps.db, perRound);
  for (const { userId, name } of left) {
    signal.throwIfAborted();
    try {
      await lookThrough(deps, userId, name, AbortSignal.any([signal, clock.abortAfter(lookMs)]));
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ err: error, userId, repository: name }, "a repository of an account could not be looked through");
    }
  }
  return left.length;
}
