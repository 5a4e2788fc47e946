import type { Clock } from "@svc/runtime/clock";
import { noTable, type TableIndex } from "./lookup.ts";

/** What decides who comes in. */
export interface InForce extends TableIndex {
  /** Nodes and edges that were fenced or removed: their certificates count no more. */
  gone: ReadonlySet<string>;
}

/** The table in force. */
export interface Table {
  current(): InForce;
  /** Puts another one in force, or others that are gone; whoever waits for a change looks again. */
  replace(next: TableIndex | Pick<InForce, "gone">): void;
  /** Hears of each change from now on, until the returned function is called. */
  onChange(hear: (index: InForce) => void): () => void;
}

export function createTable(): Table {
  let index: InForce = { ...noTable, gone: new Set() };
  const listeners = new Set<(index: InForce) => void>();
  return {
    current: () => index,
    replace(next) {
      index = { ...index, ...next };
      for (const hear of [...listeners]) hear(index);
    },
    onChange(hear) {
      listeners.add(hear);
      return () => void listeners.delete(hear);
    },
  };
}

export interface Settling<T> {
  /** Asked now and after each change; "wait" until the table decides. */
  decide: (index: InForce) => T | "wait";
  /** Called once, when it has to be waited for. */
  onWait?: () => void;
  heldMs: number;
  signal: AbortSignal;
}

/** What the table decides, or "held" when it did not within `heldMs`, or `signal` aborted. */
export function settle<T>(
  clock: Clock,
  table: Table,
  { decide, onWait, heldMs, signal }: Settling<T>,
): Promise<T | "held"> {
  return new Promise((resolve) => {
    const now = decide(table.current());
    if (now !== "wait" || signal.aborted) return resolve(now === "wait" ? "held" : now);
    onWait?.();
    const end = (verdict: T | "held"): void => {
      timer[Symbol.dispose]();
      forget();
      signal.removeEventListener("abort", giveUp);
      resolve(verdict);
    };
    const giveUp = (): void => end("held");
    const timer = clock.after(heldMs, giveUp);
    const forget = table.onChange((index) => {
      const verdict = decide(index);
      if (verdict !== "wait") end(verdict);
    });
    signal.addEventListener("abort", giveUp, { once: true });
  });
}
