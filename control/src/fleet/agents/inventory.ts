import type { Inventory, PlacementStatus, RunStatus } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { untilAborted } from "../sessions/session.ts";

/** Everything that an agent holds. */
export interface Held {
  items: readonly PlacementStatus[];
  runs: readonly RunStatus[];
}

/** More than any node has. */
const maxEntries = 10_000;

/** Puts the parts of an inventory together. */
export function createInventory(clock: Clock) {
  const items: PlacementStatus[] = [];
  const runs: RunStatus[] = [];
  const whole = Promise.withResolvers<Held>();
  return {
    /** False when it is too long. What comes after the last part is passed over. */
    add(part: Pick<Inventory, "items" | "runs" | "final">): boolean {
      items.push(...part.items);
      runs.push(...part.runs);
      if (part.final) whole.resolve({ items, runs });
      return items.length + runs.length <= maxEntries;
    },
    /** The whole, or null when it is not complete in time or `signal` aborts first. */
    complete(timeoutMs: number, signal: AbortSignal): Promise<Held | null> {
      const ended = untilAborted(signal).then(() => null);
      return within(clock, timeoutMs, Promise.race([ended, whole.promise]), () => null);
    },
  };
}
