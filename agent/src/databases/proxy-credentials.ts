import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../log.ts";
import type { ProxyCredentials, ProxyDir } from "./proxy-dir.ts";

/** What this node shows of itself, handed to its database proxy. */
export interface ProxyCredentialsKeeper {
  /** There are other ones from now on. */
  give(credentials: ProxyCredentials): void;
  /** Writes them until they are there, and again whenever there are others, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** As somebody else may have taken the directory over meanwhile, who could not read what is there. */
const writeAgainMs = 24 * 60 * 60 * 1000;

export function createProxyCredentials(options: {
  clock: Clock;
  dir: Pick<ProxyDir, "writeCredentials">;
  first: ProxyCredentials;
  log: Log;
}): ProxyCredentialsKeeper {
  const { clock, dir, log } = options;
  const wake = createWake(clock);
  let current = options.first;
  return {
    give(credentials) {
      current = credentials;
      wake.signal();
    },
    run: (signal) =>
      runLoop(
        {
          ...{ clock, wake, periodMs: writeAgainMs, signal },
          onError: (cause) => log.error({ err: cause }, "the database proxy cannot be given its certificate"),
        },
        () => dir.writeCredentials(current),
      ),
  };
}
