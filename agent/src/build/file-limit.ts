import { existsSync } from "node:fs";
import { run } from "@svc/runtime/command";

const withinMs = 10_000;

/**
 * Keeps processes, and whatever they start, from making a single file larger than that, be it of holes alone. Whoever
 * looks at what was written comes too late for one that the engine copies at once: nobody can end that.
 */
export async function limitFileSize(pids: readonly number[], maxBytes: number): Promise<void> {
  let problem: unknown = null;
  for (const pid of pids) {
    try {
      await run(["prlimit", "--pid", String(pid), `--fsize=${maxBytes}`], { timeoutMs: withinMs });
    } catch (cause) {
      // One that has ended meanwhile needs no limit, and the others need theirs.
      if (existsSync(`/proc/${pid}`)) problem = cause;
    }
  }
  if (problem !== null) throw problem;
}

/** Whether a step ran into that limit: what the shell makes of the signal for it, or what programs say that heed none. */
export const hitFileLimit = (exitCode: number, lastLines: readonly string[]): boolean =>
  exitCode === 128 + sigxfsz || lastLines.some((line) => /\bFile too large\b|\bEFBIG\b/.test(line));

const sigxfsz = 25;
