import { setTimeout as delay } from "node:timers/promises";
import { limits } from "@svc/proto/limits";
import type { Log } from "../log.ts";

/**
 * Appends to one log at control. Writing never blocks and never fails: what control cannot take now waits,
 * and what does not fit the bounds is left out with a note in its place.
 */
export type LogStream = {
  write(text: string | Buffer): void;
  /** No more is written. The rest is still delivered, in the background. */
  end(): void;
  /** Settles when everything was delivered, or given up. */
  readonly done: Promise<void>;
};

/** The AppendLog call: stores `data` at `offset` and returns how many bytes are stored now. */
export type Append = (
  request: { streamId: string; offset: bigint; data: Uint8Array<ArrayBuffer>; final: boolean },
  signal: AbortSignal,
) => Promise<bigint>;

const FLUSH_EVERY_MS = 150;
const PENDING_MAX_BYTES = 1024 * 1024;
const CALL_TIMEOUT_MS = 15_000;
const LONGEST_PAUSE_MS = 10_000;
/** After its end a log is offered for this long. */
const LINGER_MS = 10 * 60 * 1000;

/**
 * Opens the log `streamId`. Control counts bytes, so a repeat after a lost answer is stored once.
 *
 * @param replays true when the text is the same after every restart of the agent (a container's output): what
 *   control already has is then skipped. Otherwise new text goes behind the old.
 */
export function openLogStream(options: {
  streamId: string;
  append: Append;
  replays: boolean;
  maxBytes: number;
  signal: AbortSignal;
  log: Log;
}): LogStream {
  const { streamId, append, signal, log } = options;
  const pending: Buffer[] = [];
  let pendingBytes = 0;
  let takenBytes = 0;
  let leftOutBytes = 0;
  let ended = false;
  /** Bytes at control; null until it was asked. */
  let stored: bigint | null = null;
  let skip = 0n;
  let wake = (): void => {};

  const enqueue = (bytes: Buffer): void => {
    if (bytes.length === 0) return;
    pending.push(bytes);
    pendingBytes += bytes.length;
  };

  const call = async (data: Buffer, final: boolean): Promise<void> => {
    const offset = stored ?? 0n;
    const within = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
    const length = await append({ streamId, offset, data: Uint8Array.from(data), final }, within);
    if (stored === null && options.replays) skip = length;
    stored = length;
  };

  /** Takes the next chunk off the queue, without what control has from before the agent restarted. */
  const nextChunk = (): Buffer => {
    const chunk = Buffer.concat(pending).subarray(0, limits.logChunkBytesMax + Number(skip));
    const unknown = chunk.subarray(Math.min(chunk.length, Number(skip)));
    return unknown;
  };

  const drop = (bytes: number): void => {
    const rest = Buffer.concat(pending).subarray(bytes);
    pending.splice(0, pending.length, ...(rest.length === 0 ? [] : [rest]));
    pendingBytes = rest.length;
  };

  const deliver = async (): Promise<void> => {
    let failures = 0;
    let endedAtMs = 0;
    while (!signal.aborted) {
      if (ended && endedAtMs === 0) endedAtMs = Date.now();
      if (endedAtMs > 0 && Date.now() - endedAtMs > LINGER_MS) return;
      try {
        if (stored === null) await call(Buffer.alloc(0), false);
        const chunk = nextChunk();
        const taken = Math.min(pendingBytes, Number(skip) + chunk.length);
        const isLast = ended && taken === pendingBytes;
        if (chunk.length > 0 || isLast) await call(chunk, isLast);
        drop(taken);
        skip -= BigInt(Math.min(Number(skip), taken));
        failures = 0;
        if (isLast) return;
      } catch (cause) {
        if (signal.aborted) return;
        failures += 1;
        if (failures === 1) log.debug({ streamId, reason: String(cause) }, "log waits for control");
        await delay(Math.min(LONGEST_PAUSE_MS, 200 * 2 ** Math.min(failures, 10)), undefined, { signal });
        continue;
      }
      if (pendingBytes === 0 && !ended) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      if (!ended) await delay(FLUSH_EVERY_MS, undefined, { signal });
    }
  };

  signal.addEventListener("abort", () => wake(), { once: true });
  const done = deliver().catch(() => {});

  return {
    write(text) {
      if (ended) return;
      const bytes = typeof text === "string" ? Buffer.from(text, "utf8") : text;
      const room = Math.min(options.maxBytes - takenBytes, PENDING_MAX_BYTES - pendingBytes);
      if (bytes.length > room) {
        leftOutBytes += bytes.length;
        return;
      }
      if (leftOutBytes > 0) {
        enqueue(Buffer.from(`[${leftOutBytes} bytes left out]\n`));
        leftOutBytes = 0;
      }
      takenBytes += bytes.length;
      enqueue(Buffer.from(bytes));
      wake();
    },
    end() {
      if (leftOutBytes > 0) enqueue(Buffer.from(`[${leftOutBytes} bytes left out]\n`));
      ended = true;
      wake();
    },
    done,
  };
}
