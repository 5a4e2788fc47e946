import type { Analytics, AnalyticsAck } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import { type AnalyticsHour, analyticsHours } from "./rules.ts";

/** Takes what one router counted of visitors, one message after another. */
export interface AnalyticsReceiver {
  receive(message: Analytics): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

const idleMs = 60_000;

/**
 * @param keep puts rows in the place of what they were before
 * @param acknowledge called when rows are there for good, or can never be
 */
export function createAnalyticsReceiver(options: {
  clock: Clock;
  random: Random;
  keep: (edgeId: string, hours: readonly AnalyticsHour[]) => Promise<void>;
  edgeId: string;
  acknowledge: (ack: Pick<AnalyticsAck, "number">) => void;
  log: Log;
  signal: AbortSignal;
}): AnalyticsReceiver {
  const { clock, random, keep, edgeId, acknowledge, log, signal } = options;
  const wake = createWake(clock);
  /** A router sends one and waits for the answer, so another one replaces what it gave up. */
  let newest: Analytics | null = null;
  let isTroubleNamed = false;

  async function apply({ number, rows }: Analytics): Promise<void> {
    const hours = analyticsHours(rows, clock.now());
    if (hours.length < rows.length && !isTroubleNamed) {
      isTroubleNamed = true;
      log.warn({ edgeId, dropped: rows.length - hours.length }, "rows of analytics make no sense and are dropped");
    }
    const step = async () => {
      await keep(edgeId, hours);
      return true;
    };
    const applied = await persist(step, { clock, random, signal, log, what: "keep analytics" });
    if (applied !== null) acknowledge({ number });
  }

  return {
    receive(message) {
      newest = message;
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        const message = newest;
        newest = null;
        if (message === null) await wake.wait(idleMs, signal);
        else await apply(message);
      }
    },
  };
}
