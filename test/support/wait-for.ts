import { setTimeout as delay } from "node:timers/promises";

const lookMs = 100;

/**
 * Asks again and again until the answer is neither null, undefined nor false, and returns it. Throws after
 * `timeoutMs`, naming `what` was waited for and the last error that asking threw.
 */
export async function waitFor<T>(
  what: string,
  timeoutMs: number,
  ask: () => T | Promise<T>,
  everyMs = lookMs,
): Promise<Exclude<T, null | undefined | false>> {
  const until = performance.now() + timeoutMs;
  let problem = "";
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== null && answer !== undefined && answer !== false)
        return answer as Exclude<T, null | undefined | false>;
      problem = "";
    } catch (error) {
      problem = `; last: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (performance.now() > until) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}${problem}`);
    await delay(everyMs);
  }
}
