import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Op } from "../../stores/etcd/index.ts";
import { offsetToTell } from "../cluster/clock-skew.ts";
import { keys } from "../cluster/keys.ts";

/** Renewals that are looked at: a minute's. */
const kept = 12;

/**
 * By how many ms a daemon's clock is ahead, from what its last renewals said and when they came, newest last. A message
 * that was held up makes the clock look slow and never fast, so the greatest of them is the one nearest to the truth.
 */
export const estimateOffsetMs = (offsetsMs: readonly number[]): number => Math.max(...offsetsMs.slice(-kept));

/**
 * Tells etcd how far a daemon's clock is off, when it is and when that changes, and not more often than every `everyMs`;
 * the key goes with the next session.
 */
export interface ClockSkewWriter {
  /** A renewal came that said so much; 0 of a daemon that does not tell. */
  heard(wallMs: bigint): void;
}

export function createClockSkewWriter({
  daemonId,
  write,
  everyMs,
  clock,
  log,
  signal,
}: {
  daemonId: string;
  /** Writes while the session is this one. */
  write: (ops: readonly Op[]) => Promise<unknown>;
  everyMs: number;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}): ClockSkewWriter {
  const key = keys.clock(daemonId);
  let offsetsMs: number[] = [];
  let toldMs: number | null = null;
  let isWriting = false;
  let wroteAtMs: number | null = null;

  async function tell(nextMs: number | null): Promise<void> {
    await write([nextMs === null ? { delete: { key } } : { put: { key, value: String(nextMs) } }]);
    toldMs = nextMs;
    if (nextMs !== null) log.warn({ daemon: daemonId, offsetMs: nextMs }, "the clock of a machine is off");
  }

  return {
    heard(wallMs) {
      if (wallMs === 0n || signal.aborted) return;
      offsetsMs = [...offsetsMs, Number(wallMs) - clock.now().getTime()].slice(-kept);
      const nextMs = offsetToTell(estimateOffsetMs(offsetsMs), toldMs);
      if (isWriting || nextMs === toldMs) return;
      if (wroteAtMs !== null && clock.bootMs() - wroteAtMs < everyMs) return;
      isWriting = true;
      wroteAtMs = clock.bootMs();
      // What is passed over, or could not be written, is looked at again with every renewal.
      tell(nextMs)
        .catch((error: unknown) => log.debug({ err: error, daemon: daemonId }, "a clock was not noted"))
        .finally(() => {
          isWriting = false;
        });
    },
  };
}
