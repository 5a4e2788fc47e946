import { createServer } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";

/** Host ports for containers. Who holds which is the caller's to know: it is kept with the placements. */
export interface Ports {
  /**
   * A port that nobody holds and nobody listens on at any of `addresses`, preferably one that nobody held a moment ago; null
   * when there is none. `hold` is called with it at once, so that of two takes at the same time each gets its own.
   */
  take(
    addresses: readonly string[],
    isHeld: (port: number) => boolean,
    hold: (port: number) => void,
  ): Promise<number | null>;
  /** Whether nobody listens on it at `address` now. */
  isFree(address: string, port: number): Promise<boolean>;
  /** It was given up. It is not handed out for a while: an edge that did not hear of it may still send visitors there. */
  rest(port: number): void;
}

const restsMs = 10 * 60 * 1000;

/**
 * Ports within a range. A port is tried by listening on it for a moment. Somebody else on the machine may
 * still be faster: then the start fails and another is taken.
 */
export function createPorts(clock: Clock, random: Random, range: { first: number; last: number }): Ports {
  const size = range.last - range.first + 1;
  const restsUntilMs = new Map<number, number>();

  const isResting = (port: number): boolean => {
    const untilMs = restsUntilMs.get(port);
    if (untilMs === undefined) return false;
    if (untilMs > clock.steadyMs()) return true;
    restsUntilMs.delete(port);
    return false;
  };

  const find = async (addresses: readonly string[], isLeftOut: (port: number) => boolean): Promise<number | null> => {
    const start = Math.floor(random.next() * size);
    for (let step = 0; step < size; step += 1) {
      const port = range.first + ((start + step) % size);
      // Asked again after the wait: another take may have come between.
      if (!isLeftOut(port) && (await isFreeAtAll(addresses, port)) && !isLeftOut(port)) return port;
    }
    return null;
  };

  return {
    async take(addresses, isHeld, hold) {
      for (const isLeftOut of [(port: number) => isHeld(port) || isResting(port), isHeld]) {
        const port = await find(addresses, isLeftOut);
        if (port === null || isHeld(port)) continue;
        hold(port);
        return port;
      }
      return null;
    },
    isFree,
    rest(port) {
      if (port < range.first || port > range.last) return;
      restsUntilMs.set(port, clock.steadyMs() + restsMs);
    },
  };
}

async function isFreeAtAll(addresses: readonly string[], port: number): Promise<boolean> {
  for (const address of addresses) if (!(await isFree(address, port))) return false;
  return true;
}

function isFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, address, () => server.close(() => resolve(true)));
  });
}
