import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import { type Identity, isOver, nextIdentity } from "@svc/uplink";
import type { Config } from "./config.ts";
import type { Log } from "./log.ts";

/** The node has another identity from now on; whoever runs the agent starts it again. */
export class IdentityReplacedError extends Error {
  override name = "IdentityReplacedError";
}

const askEveryMs = 10_000;

/**
 * Waits until this node may go on under another identity: its certificate is over, it joined anew with another
 * bootstrap token, and control says that the node it was is fenced or removed. Until then what it runs belongs to
 * that node, whose replicas control has not given up, so nothing of it is touched. Null when `signal` aborts.
 */
export async function rejoin(options: {
  clock: Clock;
  random: Random;
  config: Pick<Config, "dir" | "enrollUrls" | "bootstrapTokenFile" | "name">;
  former: Pick<Identity, "id">;
  /** Which of these nodes control says are fenced or removed, asked as `next`. */
  askGone(next: Identity, nodeIds: string[]): Promise<string[]>;
  signal: AbortSignal;
  log: Log;
  /** Shorter waits, for tests. */
  waits?: { lookEveryMs?: number; tokenEveryMs?: number; askEveryMs?: number };
}): Promise<Identity | null> {
  const { clock, random, config, former, askGone, signal, log, waits = {} } = options;
  while (!signal.aborted) {
    const next = await nextIdentity({
      ...waits,
      clock,
      random,
      dir: config.dir,
      enrollUrls: config.enrollUrls,
      tokenFile: config.bootstrapTokenFile,
      proposedName: config.name,
      signal,
      log,
    });
    if (next === null) return null;
    log.warn(
      { former: former.id, next: next.id },
      "joined anew under another identity, which takes over once the former node is fenced or removed",
    );
    while (!signal.aborted && !isOver(next, clock.now())) {
      try {
        if ((await askGone(next, [former.id])).includes(former.id)) return next;
      } catch (cause) {
        if (!signal.aborted)
          log.warn({ reason: String(cause) }, "control does not say whether the former node is gone");
      }
      await pause(clock, waits.askEveryMs ?? askEveryMs, signal);
    }
  }
  return null;
}
