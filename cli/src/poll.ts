import { sleep } from "@svc/runtime/sleep";
import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";

/** How long a service that does not answer is asked again. */
const outageMsMax = 120_000;
const outageDelayMs = 2000;
const outageDelayMsMax = 30_000;

/** What one round of asking found: the end, or how long to wait before the next. */
export type Round<T> = { done: T } | { delayMs: number };

/** Whether asking again later may help: no answer, a service in trouble, or too many requests. */
export const isPassing = (thrown: unknown): thrown is CliError =>
  thrown instanceof CliError && (thrown.code === "CLOUD_UNAVAILABLE" || thrown.server?.status === 429);

/** How long to wait after such an error: what the server asked for, within reason. */
export function outageDelay(error: CliError): number {
  const wantedMs = (error.server?.retryAfterSeconds ?? 0) * 1000;
  return Math.min(Math.max(wantedMs, outageDelayMs), outageDelayMsMax);
}

/** How long to wait before asking again, `elapsedMs` after the first question: often while something quick may end, then less. */
export function pollDelay(elapsedMs: number): number {
  if (elapsedMs < 10_000) return 300;
  return elapsedMs < 60_000 ? 1000 : 2000;
}

/** Asks until there is an answer. Outages of the service are waited out, two minutes each at most. */
export async function poll<T>(context: Context, ask: () => Promise<Round<T>>): Promise<T> {
  let outageSinceMs: number | null = null;
  for (;;) {
    let delayMs: number;
    try {
      const round = await ask();
      if ("done" in round) return round.done;
      outageSinceMs = null;
      delayMs = round.delayMs;
    } catch (thrown) {
      if (!isPassing(thrown)) throw thrown;
      if (outageSinceMs === null) context.terminal.step(`${thrown.message}; asking again`);
      outageSinceMs ??= context.clock.steadyMs();
      if (context.clock.steadyMs() - outageSinceMs > outageMsMax) throw thrown;
      delayMs = outageDelay(thrown);
    }
    await sleep(context.clock, delayMs, context.signal);
  }
}

/** One question that is waited for as `poll` waits: for those who look on, and would only ask again themselves. */
export const askPatiently = <T>(context: Context, ask: () => Promise<T>): Promise<T> =>
  poll(context, async () => ({ done: await ask() }));
