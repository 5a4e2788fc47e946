import { createServer } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { z } from "zod";
import type { Journal } from "../journal/journal.ts";

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

/** Ports that were handed out and may not have rested yet: what outlives the agent. On disk when `save` returns. */
export interface PortMemory {
  load(): readonly number[];
  save(ports: readonly number[]): void;
}

const portsSetting = "ports";

/** Kept as a setting of the journal. */
export const portMemory = (journal: Pick<Journal, "findSetting" | "saveSetting">): PortMemory => ({
  load: () => z.array(z.int()).parse(JSON.parse(journal.findSetting(portsSetting) ?? "[]")),
  save: (ports) => journal.saveSetting(portsSetting, JSON.stringify(ports)),
});

/**
 * Ports within a range. `isFree` tries a port by listening on it for a moment. Somebody else on the machine may
 * still be faster: then the start fails and another is taken.
 *
 * Nobody knows how long what the agent before gave up has rested, so all of that rests anew.
 */
export function createPorts(
  clock: Clock,
  random: Random,
  range: { first: number; last: number },
  isFree: Ports["isFree"],
  memory: PortMemory,
): Ports {
  const isFreeAtAll = async (addresses: readonly string[], port: number): Promise<boolean> => {
    for (const address of addresses) if (!(await isFree(address, port))) return false;
    return true;
  };
  const size = range.last - range.first + 1;
  let known: readonly number[] = memory.load();
  const restsUntilMs = new Map(known.map((port) => [port, clock.steadyMs() + restsMs]));

  /** Before anybody holds it: whatever comes between, the next agent lets it rest. */
  const remember = (port: number, isHeld: (port: number) => boolean): void => {
    const next = [...new Set([...known.filter((one) => isHeld(one) || isResting(one)), port])];
    memory.save(next);
    known = next;
  };

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
        remember(port, isHeld);
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

/** Whether nobody listens on it at `address` now. */
export function isPortFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, address, () => server.close(() => resolve(true)));
  });
}
