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
  let readBytes = 0;
  let isRead = false;

  const read = async (): Promise<void> => {
    if (redact === null) return;
    try {
      const lines = createSafeLines(redact);
      const ends = createBothEnds(limits.jobLogBytesMax);
      const write = (text: string): void => {
        if (text !== "") stream.write(text);
      };
      const take = (safe: readonly string[]): void => write(safe.map((line) => ends.push(`${line}\n`)).join(""));
      await engine.followLog(
        name,
        (chunk) => {
          readBytes += chunk.length;
          take(lines.push(chunk));
        },
        signal,
      );
      // An agent that stops leaves the half of a line, and the end, to the next one, which reads from the beginning.
      if (signal.aborted) return;
      take(lines.end());
      write(ends.end());
    } catch (cause) {
      log.warn({ err: cause }, "the output of a run could not be read");
    }
  };
  const reading = read().then(() => {
    isRead = true;
  });

  return {
    async finish() {
      for (let before = -1; !isRead && readBytes > before && !signal.aborted; ) {
        before = readBytes;
        await Promise.race([reading, pause(clock, lookEveryMs, signal)]);
      }
      if (signal.aborted) return;
      stream.end();
      await Promise.race([stream.done, pause(clock, lookEveryMs, signal)]);
    },
    stop: () => stream.end(),
  };
}
