import type { TrafficAck, TrafficBatch } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { TrafficInput } from "./apply.ts";
import { isSeries, trafficRows } from "./rules.ts";

/** Takes one router's batches of traffic, one after another. */
export interface TrafficReceiver {
  receive(batch: TrafficBatch): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

const idleMs = 60_000;
/** Between two lines about counts that make no sense: who sends them sends many. */
const namedEveryMs = 3_600_000;

/** Postgres' class of errors that are in the data (SQLSTATE 22xxx): another attempt would not help. Null for others. */
function dataProblem(error: unknown): string | null {
  const code = error instanceof Error ? Reflect.get(error, "code") : undefined;
  return typeof code === "string" && /^22[0-9A-Z]{3}$/.test(code) ? code : null;
}

/**
 * @param count adds a batch to what is counted, once: false when it was counted before
 * @param acknowledge called when a batch is counted, now or earlier, or can never be
 */
export function createTrafficReceiver({
  clock,
  random,
  count,
  edgeId,
  acknowledge,
  log,
  signal,
}: {
  clock: Clock;
  random: Random;
  count: (input: TrafficInput) => Promise<boolean>;
  edgeId: string;
  acknowledge: (ack: Pick<TrafficAck, "series" | "number">) => void;
  log: Log;
  signal: AbortSignal;
}): TrafficReceiver {
  const wake = createWake(clock);
  /** A router sends one and waits for the answer, so another one replaces what it gave up. */
  let newest: TrafficBatch | null = null;
  /** Counts that were left out and not told about yet. */
  let dropped = 0;
  let namedAt = Number.NEGATIVE_INFINITY;

  function nameDropped(counts: number, at: number): void {
    dropped += counts;
    if (dropped === 0 || at - namedAt < namedEveryMs) return;
    log.warn({ edgeId, dropped }, "counts of traffic make no sense and are dropped");
    dropped = 0;
    namedAt = at;
  }

  async function apply({ series, number, counts }: TrafficBatch): Promise<void> {
    if (!isSeries(series) || number > BigInt(Number.MAX_SAFE_INTEGER)) {
      return log.warn({ edgeId, series: series.slice(0, 64) }, "a batch of traffic has no proper number");
    }
    const at = clock.now();
    const rows = trafficRows(counts, at);
    nameDropped(counts.length - rows.length, at.getTime());
    const step = async () => {
      try {
        return await count({ edgeId, series, number: Number(number), rows });
      } catch (error) {
        const code = dataProblem(error);
        if (code === null) throw error;
        // It would fail for ever, and hold up every batch after it.
        log.error(
          { err: error, code, edgeId, number: Number(number), rows: rows.length },
          "a batch of traffic is dropped",
        );
        return false;
      }
    };
    const counted = await persist(step, {
      clock,
      random,
      signal,
      log,
      what: "count traffic",
    });
    if (counted === null) return;
    acknowledge({ series, number });
    log.debug({ edgeId, number: Number(number), rows: rows.length, counted }, "traffic counted");
  }

  return {
    receive(batch) {
      newest = batch;
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        const batch = newest;
        newest = null;
        if (batch === null) await wake.wait(idleMs, signal);
        else await apply(batch);
      }
    },
  };
}
