// @pure
import type { Container } from "./engine.ts";

/** What a process that was ended by SIGKILL exits with. */
const killed = 137;
/** The engine says by itself what a process was killed for, and at times only after it said that it ended. */
const reasonWithinMs = 1_000;

/** Whether the engine says, while it may, that a container was killed for want of memory, which it keeps saying of one that runs again. */
export function isReasonNews(
  { oomKilled, finishedAt }: Pick<Container, "oomKilled" | "finishedAt">,
  nowMs: number,
): boolean {
  return oomKilled && finishedAt !== null && Math.abs(nowMs - Date.parse(finishedAt)) < 2 * reasonWithinMs;
}

/** For how many ms more the engine may tell why an exited container was killed; 0 when it has, or will not. */
export function reasonDueMs(
  { exitCode, oomKilled, finishedAt }: Pick<Container, "exitCode" | "oomKilled" | "finishedAt">,
  nowMs: number,
): number {
  if (exitCode !== killed || oomKilled || finishedAt === null) return 0;
  const goneForMs = nowMs - Date.parse(finishedAt);
  // In the future after the clock was set back, and then perhaps far.
  return Math.abs(goneForMs) < reasonWithinMs ? reasonWithinMs - Math.max(0, goneForMs) : 0;
}
