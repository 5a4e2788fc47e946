import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import { lastRunOf } from "../logs/last-run.ts";
import { createSafeLines } from "../logs/lines.ts";
import { redact } from "../logs/redactor.ts";
import { type Exit, type Tails, tailLinesMax } from "../logs/tails.ts";
import { withLastError } from "./failure.ts";
import { kindOf } from "./kinds/index.ts";
import { containerName } from "./names.ts";
import type { Task } from "./task.ts";

/** Hears a container that has come to its end by itself. */
export interface LastWords {
  /**
   * Keeps the end of its log, and returns what to tell the person who deployed: the reason and the lines
   * from the last error on, without the app's secrets. Both are as good as can be had: a log that cannot be read is no reason to fail.
   */
  take(task: Task, end: Exit, startedAt: string | null): Promise<string>;
  /** Remembers what is still being told of a placement that starts again meanwhile. `telling` does not fail. */
  follow(placementId: string, telling: Promise<void>): void;
  /** Settles once that is told, or at once. */
  followed(placementId: string): Promise<void>;
}

/** Where a value spans lines, each of them is one that must not show. */
const secretLineLengthMin = 16;

export function createLastWords(options: { engine: Engine; tails: Tails; log: Log }): LastWords {
  const { engine, tails, log } = options;

  const readLog = async (placementId: string): Promise<string> => {
    try {
      return await engine.readLog(containerName(placementId), tailLinesMax);
    } catch (cause) {
      log.warn({ placementId, reason: String(cause) }, "the last lines of a container could not be read");
      return "";
    }
  };

  const tellings = new Map<string, Promise<void>>();

  return {
    follow(placementId, telling) {
      const settled = telling.finally(() => {
        if (tellings.get(placementId) === settled) tellings.delete(placementId);
      });
      tellings.set(placementId, settled);
    },
    followed: async (placementId) => tellings.get(placementId),
    async take(task, end, startedAt) {
      const { placement, memory } = task.record();
      const secrets = withLines(kindOf(placement)?.redact ?? []);
      const text = await readLog(task.id);
      // What it said before it ended the last time is no reason of this end.
      const said = lastRunOf(text, { endedBefore: memory.countedExit, startedAt: startedAt ?? "", endedAt: end.at });
      const reason = redact(end.reason, secrets) + heapHint(said, end);
      try {
        await tails.keep({ placementId: task.id, projectId: placement.projectId }, { exit: { ...end, reason }, text });
      } catch (cause) {
        log.warn({ placementId: task.id, reason: String(cause) }, "the last lines of a container could not be kept");
      }
      return withLastError(reason, safeLines(said, secrets));
    },
  };
}

/** Without time stamps, which push what matters to the right, and without anything that must not show. */
function safeLines(log: string, secrets: readonly string[]): string[] {
  const lines = createSafeLines(secrets);
  return [...lines.push(Buffer.from(log.replaceAll(/^\S+Z /gm, ""), "utf8")), ...lines.end()];
}

const withLines = (values: readonly string[]): string[] =>
  values.flatMap((value) => [
    value,
    ...value
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line.length >= secretLineLengthMin),
  ]);

/** Node ends itself before the kernel does, and says why only in a stack trace. */
const heapHint = (log: string, { oomKilled }: Exit): string =>
  !oomKilled && log.slice(-16_384).includes("JavaScript heap out of memory")
    ? " Its JavaScript heap was full: make it use less memory, or move to a plan with more."
    : "";
