import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../log.ts";

/**
 * Whether what control names counts as granted. Where two machines have one identity each takes the session from the
 * other, and what either is told in it is meant for one of them: such a session's grants count once it has stood for
 * longer than the other needs to come back.
 */
export interface Grants {
  /** A session began whose grants count after so long; 0: at once. */
  open(afterMs: number): void;
  /** These were named. True: they are granted now. Otherwise they are once the session has stood. */
  name(placementIds: readonly string[]): boolean;
  /** The session is over, and what it named and did not grant has to be named again. */
  close(): void;
}

/** How soon what was not written down is tried again. */
const againMs = 5_000;

export function createGrants(options: {
  clock: Clock;
  log: Log;
  /** These are granted. Throws when it cannot be written down. */
  grant(placementIds: readonly string[]): void;
  /** What was named is to be named again. */
  askAgain(): void;
}): Grants {
  const named = new Set<string>();
  let timer: Disposable | null = null;
  const stand = (): void => {
    timer = null;
    if (named.size === 0) return;
    try {
      options.grant([...named]);
      named.clear();
    } catch (error) {
      // What could not be written down has not happened.
      options.log.warn({ err: error, againMs }, "a grant could not be written down: it is tried again");
      timer = options.clock.after(againMs, stand);
    }
  };
  const close = (): void => {
    timer?.[Symbol.dispose]();
    timer = null;
    if (named.size === 0) return;
    named.clear();
    options.askAgain();
  };
  return {
    open(afterMs) {
      close();
      if (afterMs > 0) timer = options.clock.after(afterMs, stand);
    },
    name(placementIds) {
      if (timer === null) return true;
      for (const id of placementIds) named.add(id);
      return false;
    },
    close,
  };
}
