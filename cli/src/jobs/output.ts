import { isJobRunOver, type JobRunReply, jobRunDetailReply, jobRunLogsReply } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { formatBytes } from "../format.ts";
import type { Filter } from "../logs/filter.ts";
import { newLines, splitLines } from "../logs/lines.ts";
import { poll, pollDelay } from "../poll.ts";
import { attemptLine } from "./lines.ts";

/** The last words of a command come a moment after its end; who follows waits for them no longer than this. */
const lastWordsMsMax = 15_000;

/** Whose output is read. `attempt` undefined: the newest. */
export interface RunSource {
  api: Api;
  projectId: string;
  runId: string;
  attempt: number | undefined;
}

export const runPath = ({ projectId, runId }: Pick<RunSource, "projectId" | "runId">): string =>
  `/projects/${projectId}/job-runs/${runId}`;

export const readRun = (source: RunSource) => source.api.get(runPath(source), jobRunDetailReply);

const readOutput = (source: RunSource, attempt: number) =>
  source.api.get(`${runPath(source)}/logs?attempt=${attempt}`, jobRunLogsReply);

/** A run, its attempts, and the output of one of them; null where none has begun. */
export async function readRunOutput(source: RunSource) {
  const { run, attempts } = await readRun(source);
  const attempt = source.attempt ?? attempts.at(-1)?.attempt;
  if (attempt === undefined) return { run, attempts, output: null };
  const { log, omittedBytes, live } = await readOutput(source, attempt);
  return { run, attempts, output: { attempt, log, omittedBytes, live } };
}

/** Said where the middle of an output was left out. */
export const omittedText = (omittedBytes: number): string =>
  `${formatBytes(omittedBytes)} of its output were left out in the middle`;

/**
 * Prints what a run says as it says it, and goes on with its next attempt where there is one, until the run is over; with
 * an attempt that was named, until that one is. Returns the run as it was then.
 */
export async function followRun(context: Context, source: RunSource, keep: Filter): Promise<JobRunReply> {
  const { terminal, clock } = context;
  const startedAtMs = clock.steadyMs();
  let current: number | null = source.attempt ?? null;
  let shown: { lines: string[]; omittedBytes: number } = { lines: [], omittedBytes: 0 };
  let overSinceMs: number | null = null;
  let told: string | null = null;

  /** Prints what is new of an attempt: whole lines, and the rest of it once it is over. Returns whether more may come. */
  const show = async (attempt: number, isOver: boolean): Promise<boolean> => {
    const { log, omittedBytes, live } = await readOutput(source, attempt);
    const isWhole = isOver && !live;
    const lines = splitLines(isWhole ? log : log.slice(0, log.lastIndexOf("\n") + 1));
    const fresh = newLines(shown.lines, lines);
    if (omittedBytes > shown.omittedBytes) terminal.step(omittedText(omittedBytes));
    // What is cut in the middle stays as it was up to there.
    context.stream(keep(fresh.gap ? lines.slice(commonLines(shown.lines, lines)) : fresh.lines));
    shown = { lines, omittedBytes };
    return live;
  };

  return poll(context, async () => {
    const { run, attempts } = await readRun(source);
    current ??= attempts.at(-1)?.attempt ?? null;
    if (current === null && run.status !== told && !isJobRunOver(run.status))
      terminal.step(run.message ?? `The run is ${run.status.replaceAll("_", " ")}`);
    told = run.status;
    let mayCome = false;
    while (current !== null) {
      const at: number = current;
      const attempt = attempts.find((each) => each.attempt === at);
      const next = attempts.find((each) => each.attempt > at);
      const isOver =
        attempt === undefined || attempt.finishedAt !== null || next !== undefined || isJobRunOver(run.status);
      mayCome = await show(at, isOver);
      if (source.attempt !== undefined || next === undefined) {
        if (source.attempt !== undefined && isOver && !mayCome) return { done: run };
        break;
      }
      if (attempt !== undefined) terminal.step(attemptLine(attempt), "failed");
      terminal.step(`Attempt ${next.attempt}`);
      current = next.attempt;
      shown = { lines: [], omittedBytes: 0 };
    }
    const nowMs = clock.steadyMs();
    if (isJobRunOver(run.status)) {
      overSinceMs ??= nowMs;
      if (!mayCome || nowMs - overSinceMs > lastWordsMsMax) return { done: run };
    }
    return { delayMs: pollDelay(nowMs - startedAtMs) };
  });
}

/** With how many lines both begin. */
export function commonLines(before: readonly string[], after: readonly string[]): number {
  const differs = before.findIndex((line, at) => line !== after[at]);
  return differs === -1 ? before.length : differs;
}
