import type { Inventory, PlacementStatus, RunStatus } from "@svc/proto/node";

/** Everything that an agent holds. */
export interface Held {
  items: readonly PlacementStatus[];
  runs: readonly RunStatus[];
}

/** More than any node has. */
const maxEntries = 10_000;

/** Puts the parts of an inventory together. */
export function createInventory() {
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
      return new Promise((resolve) => {
        const settle = (held: Held | null) => {
          clearTimeout(timer);
          signal.removeEventListener("abort", giveUp);
          resolve(held);
        };
        const giveUp = () => settle(null);
        const timer = setTimeout(giveUp, timeoutMs);
        signal.addEventListener("abort", giveUp, { once: true });
        if (signal.aborted) giveUp();
        void whole.promise.then(settle);
      });
    },
  };
}
