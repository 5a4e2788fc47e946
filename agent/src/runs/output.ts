import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import { createBothEnds } from "../logs/both-ends.ts";
import { createSafeLines } from "../logs/lines.ts";
import type { LogStream } from "../logs/log-stream.ts";

/** What a run writes, on its way to control. */
export interface Output {
  /**
   * Once its container has ended: waits for the rest of it, and until control has it, for as long as that goes on. Whoever
   * follows a log stops when the run is over, and the end is what comes last.
   */
  finish(): Promise<void>;
  /** No more of it. What was read is delivered in the background. */
  stop(): void;
}

const lookEveryMs = 5_000;
const againAfterMs = 1_000;

/**
 * Carries the output of a container from its first byte on, without the values of `redact`: the beginning while it runs, the
 * end when it is over. Read again after a restart of the agent it is the same text, of which control takes what it has not.
 */
export function carryOutput(options: {
  clock: Clock;
  engine: Pick<Engine, "followLog">;
  /** Of the container. */
  name: string;
  /** Null when it was lost what must not be shown: then nothing is. */
  redact: readonly string[] | null;
  stream: LogStream;
  signal: AbortSignal;
  log: Log;
}): Output {
  const { clock, engine, name, redact, stream, signal, log } = options;
  /** What the stream has already, in bytes: not to be written again by another look. */
  let writtenBytes = 0;
  let chunks = 0;

  /** From the first byte on. Throws when it breaks off. */
  const read = async (isOver: boolean, within: AbortSignal): Promise<void> => {
    const lines = createSafeLines(redact ?? []);
    const ends = createBothEnds(limits.jobLogBytesMax);
    let at = 0;
    const write = (text: string): void => {
      const bytes = Buffer.from(text);
      const fresh = bytes.subarray(Math.max(0, writtenBytes - at));
      at += bytes.length;
      if (fresh.length === 0) return;
      stream.write(fresh);
      writtenBytes = at;
    };
    const take = (safe: readonly string[]): void => write(safe.map((line) => ends.push(`${line}\n`)).join(""));
    const onChunk = (chunk: Buffer): void => {
      chunks += 1;
      if (!within.aborted) take(lines.push(chunk));
    };
    await engine.followLog(name, onChunk, within);
    // The half of a line, and the end, are left to the next look, which reads from the beginning.
    if (!isOver || within.aborted) return;
    take(lines.end());
    write(ends.end());
  };

  /** The same until it has not broken off. */
  const readOn = async (isOver: boolean, within: AbortSignal): Promise<void> => {
    while (redact !== null && !within.aborted) {
      try {
        return await read(isOver, within);
      } catch (cause) {
        log.warn({ reason: String(cause) }, "the output of a run could not be read");
        await pause(clock, againAfterMs, within);
      }
    }
  };

  const following = new AbortController();
  const live = readOn(false, AbortSignal.any([signal, following.signal]));
  const stop = (): void => {
    following.abort();
    stream.end();
  };

  return {
    async finish() {
      following.abort();
      await live;
      // Whoever follows an output and is slower than its program may miss what that wrote last: it is read once more.
      const patience = new AbortController();
      let isRead = false;
      const reading = readOn(true, AbortSignal.any([signal, patience.signal])).then(() => {
        isRead = true;
      });
      for (let before = -1; !isRead && chunks > before && !signal.aborted; ) {
        before = chunks;
        await Promise.race([reading, pause(clock, lookEveryMs, signal)]);
      }
      patience.abort();
      await reading;
      if (signal.aborted) return;
      stop();
      await Promise.race([stream.done, pause(clock, lookEveryMs, signal)]);
    },
    stop,
  };
}
