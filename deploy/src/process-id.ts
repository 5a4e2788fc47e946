import { readFileSync } from "node:fs";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";

/** A process for certain: its number together with when it started, because numbers are used again. */
export interface ProcessId {
  pid: number;
  /** Clock ticks from boot to start; null when it was gone before it could be read. */
  startTicks: string | null;
}

const pollMs = 50;

/** Field 22 of /proc/<pid>/stat; null when there is no such process, or it only waits to be reaped. */
function startTicksOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may hold anything, so fields are counted from its end: state is the first.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
}

export const identify = (pid: number): ProcessId => ({ pid, startTicks: startTicksOf(pid) });

export const isAlive = ({ pid, startTicks }: ProcessId): boolean =>
  startTicks !== null && startTicksOf(pid) === startTicks;

/** Sends the signal unless the process is gone. */
export function signalProcess(id: ProcessId, signal: NodeJS.Signals): void {
  if (!isAlive(id)) return;
  try {
    process.kill(id.pid, signal);
  } catch (error) {
    const gone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!gone) throw error;
  }
}

/** Asks the process to end, and after `graceMs` makes it. Resolves when it is gone. */
export async function endProcess(
  clock: Clock,
  id: ProcessId,
  graceMs: number,
  signal: NodeJS.Signals = "SIGTERM",
): Promise<void> {
  signalProcess(id, signal);
  const untilMs = clock.steadyMs() + graceMs;
  while (isAlive(id) && clock.steadyMs() < untilMs) await sleep(clock, pollMs);
  signalProcess(id, "SIGKILL");
  const killedUntilMs = clock.steadyMs() + 5_000;
  while (isAlive(id) && clock.steadyMs() < killedUntilMs) await sleep(clock, pollMs);
}
