import { plural } from "@svc/proto";
import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import { onAbort } from "@svc/runtime/on-abort";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../log.ts";

/**
 * Appends to one log at control. Writing never blocks and never fails: what control cannot take now waits,
 * and what does not fit the bounds is left out with a note in its place.
 */
export interface LogStream {
  write(text: string | Buffer): void;
  /** No more is written. The rest is still delivered, in the background. */
  end(): void;
  /** Settles when everything was delivered, or given up. */
  readonly done: Promise<void>;
}

/** The AppendLog call: stores `data` at `offset` and returns how many bytes are stored now. */
export type Append = (
  request: { streamId: string; offset: bigint; data: Uint8Array<ArrayBuffer>; final: boolean },
  signal: AbortSignal,
) => Promise<bigint>;

const flushEveryMs = 150;
/** Of a replay everything waits: what is left out of it must not depend on how fast control was. Whoever writes it keeps to a bound. */
const pendingMaxBytes = 1024 * 1024;
const callTimeoutMs = 15_000;
const longestPauseMs = 10_000;
/** Of what is left out the end is kept, up to this and a quarter of the bound: it says why something failed. */
const tailBytesMax = 64 * 1024;
/** After its end a log is offered for this long. */
const lingerMs = 10 * 60 * 1000;

/**
 * Opens the log `streamId`. Control counts bytes, so a repeat after a lost answer is stored once.
 *
 * @param replays true when the text is the same after every restart of the agent (a container's output): what
 *   control already has is then skipped. Otherwise new text goes behind the old.
 * @param maxBytes what is left out beyond it; of a replay nothing is
 */
export function openLogStream(options: {
  clock: Clock;
  streamId: string;
  append: Append;
  replays: boolean;
  maxBytes: number;
  signal: AbortSignal;
  log: Log;
}): LogStream {
  const { clock, streamId, append, signal, log } = options;
  const tailMaxBytes = Math.min(tailBytesMax, Math.floor(options.maxBytes / 4));
  /** What waits for control, joined only when some of it is sent: a program may write it in very small pieces. */
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let takenBytes = 0;
  let leftOut = { lines: 0, bytes: 0 };
  let tail: Buffer = Buffer.alloc(0);
  let ended = false;
  /** Where the first byte of what waits goes. */
  let position = 0n;
  let wake = (): void => {};

  const enqueue = (bytes: Buffer): void => {
    pending.push(bytes);
    pendingBytes += bytes.length;
  };

  const leaveOut = (bytes: Buffer): void => {
    tail = Buffer.concat([tail, bytes]);
    if (tail.length <= tailMaxBytes) return;
    const kept = tail.subarray(tail.length - tailMaxBytes);
    // Whole lines, where there are any.
    const from = kept.subarray(kept.indexOf(0x0a) + 1);
    const gone = tail.subarray(0, tail.length - from.length);
    leftOut = { lines: leftOut.lines + countLines(gone), bytes: leftOut.bytes + gone.length };
    tail = Buffer.from(from);
  };

  /** The end of what was left out, with a note in place of the rest. */
  const makeUp = (): void => {
    if (leftOut.bytes > 0)
      enqueue(Buffer.from(`[${plural(leftOut.lines, "line")} left out, ${plural(leftOut.bytes, "byte")}]\n`));
    enqueue(tail);
    takenBytes += tail.length;
    leftOut = { lines: 0, bytes: 0 };
    tail = Buffer.alloc(0);
  };

  const call = (data: Buffer, final: boolean): Promise<bigint> => {
    const within = AbortSignal.any([signal, clock.abortAfter(callTimeoutMs)]);
    return append({ streamId, offset: position, data: Uint8Array.from(data), final }, within);
  };

  /** Repeats a step until it succeeds. False when there is no point any more. */
  const persist = async (step: () => Promise<void>): Promise<boolean> => {
    const startedMs = clock.now().getTime();
    for (let failures = 1; !signal.aborted; failures += 1) {
      try {
        await step();
        return true;
      } catch (cause) {
        if (ended && clock.now().getTime() - startedMs > lingerMs) return false;
        if (failures === 1) log.debug({ streamId, reason: String(cause) }, "a log waits for control");
        await pause(clock, Math.min(longestPauseMs, 200 * 2 ** Math.min(failures, 10)), signal);
      }
    }
    return false;
  };

  const askPosition = async (): Promise<void> => {
    position = await call(Buffer.alloc(0), false);
  };

  /** Sends what is waiting, in pieces. */
  const flush = async (): Promise<void> => {
    do {
      const joined = Buffer.concat(pending);
      pending = [joined];
      const chunk = joined.subarray(0, chunkEnd(joined));
      const until = position + BigInt(chunk.length);
      const length = await call(chunk, ended && chunk.length === joined.length);
      const isStored = length >= until;
      if (isStored) {
        pending[0] = joined.subarray(chunk.length);
        pendingBytes -= chunk.length;
      }
      // Text of its own goes behind whatever else was appended. A replay has its place, stored or not.
      position = isStored && options.replays ? until : length;
    } while (pendingBytes > 0);
  };

  const deliver = async (): Promise<void> => {
    if (!options.replays && !(await persist(askPosition))) return;
    while (!signal.aborted) {
      if (!ended && pendingBytes === 0) await new Promise<void>((resolve) => (wake = resolve));
      const isLast = ended;
      if (!(await persist(flush)) || isLast) return;
      if (!ended) await pause(clock, flushEveryMs, signal);
    }
  };

  // The signal outlives the streams, of which there are thousands.
  const leave = onAbort(signal, () => wake());
  const done = deliver().finally(leave);

  return {
    write(text) {
      if (ended) return;
      const bytes = typeof text === "string" ? Buffer.from(text, "utf8") : text;
      if (options.replays) {
        enqueue(bytes);
        return wake();
      }
      const room = Math.min(
        options.maxBytes - tailMaxBytes - takenBytes,
        pendingMaxBytes - tailMaxBytes - pendingBytes,
      );
      if (bytes.length + tail.length > room) return leaveOut(bytes);
      makeUp();
      takenBytes += bytes.length;
      enqueue(bytes);
      wake();
    },
    end() {
      if (ended) return;
      makeUp();
      ended = true;
      wake();
    },
    done,
  };
}

/** Where the next piece ends: behind a line where there is one, so that whoever reads along meets whole characters. */
function chunkEnd(bytes: Buffer): number {
  if (bytes.length <= limits.logChunkBytesMax) return bytes.length;
  const lineEnd = bytes.lastIndexOf(0x0a, limits.logChunkBytesMax - 1);
  return lineEnd === -1 ? limits.logChunkBytesMax : lineEnd + 1;
}

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, at + 1)) lines += 1;
  return lines;
}
