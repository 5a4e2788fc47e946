import { within } from "./deadline.ts";
import type { Machine } from "./machine.ts";
import type { RealtimeAdapter, RealtimeEvent, RealtimeOptions } from "./options.ts";

/** Events that an adapter may be busy with at once: one whose server is away would gather them without end. */
const maxUnderWay = 1_000;
/** An adapter that does not come to an end is left behind. */
const closeTimeoutMs = 5_000;

/** The way of events to other instances and from there. Nothing of it throws or rejects. */
export interface Relay {
  forward(event: RealtimeEvent): void;
  close(): Promise<void>;
}

export function createRelay(
  adapter: RealtimeAdapter,
  onEvent: (event: RealtimeEvent) => void,
  onAdapterError: RealtimeOptions["onAdapterError"],
  machine: Machine,
): Relay {
  const report = (error: unknown, op: "publish" | "subscribe"): void => {
    // Whoever listens for faults must not become one.
    try {
      onAdapterError?.(error, { op });
    } catch {}
  };
  /** Calls the adapter, which may throw at once as well as reject. */
  const attempt = async (op: "publish" | "subscribe", act: () => unknown): Promise<void> => {
    try {
      await act();
    } catch (error) {
      report(error, op);
    }
  };

  let underWay = 0;
  let unsubscribe: (() => unknown) | null = null;
  let closing: Promise<void> | null = null;

  void attempt("subscribe", async () => {
    const end = await adapter.subscribe((event) => {
      if (closing === null) void attempt("subscribe", () => onEvent(event));
    });
    if (closing === null) unsubscribe = end;
    else await end();
  });

  async function leave(): Promise<true> {
    await attempt("subscribe", () => unsubscribe?.());
    await attempt("subscribe", () => adapter.close?.());
    return true;
  }
  async function leaveInTime(): Promise<void> {
    const isDone = await within(machine, closeTimeoutMs, leave());
    if (!isDone) report(new Error(`the adapter did not close within ${closeTimeoutMs} ms`), "subscribe");
  }

  return {
    forward(event) {
      if (closing !== null) return;
      if (underWay >= maxUnderWay) {
        report(new Error(`the adapter is still busy with ${maxUnderWay} events`), "publish");
        return;
      }
      underWay += 1;
      void attempt("publish", () => adapter.publish(event)).then(() => {
        underWay -= 1;
      });
    },
    close() {
      closing ??= leaveInTime();
      return closing;
    },
  };
}
