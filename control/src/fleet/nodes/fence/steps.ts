// @pure
import { isRunOver, type RunValue } from "../../cluster/keys.ts";

/** Said of a command that may have run on a machine that was declared lost. */
const lost = "The node that ran the release command was declared lost, so its outcome is not known.";
const never = "The node that was to run the release command was declared lost before it began.";

/**
 * What becomes of an attempt whose node was fenced or removed, and will not tell; null when it is over already. What was
 * granted may have started, and is never offered again; what was not cannot have, so that another node may do it.
 */
export function runAfterFence(run: RunValue, now: Date): RunValue | null {
  if (isRunOver(run.state)) return null;
  const changedAt = now.toISOString();
  return run.state === "granted" || run.state === "started"
    ? { ...run, state: "indeterminate", message: lost, changedAt }
    : { ...run, state: "not_started", message: never, changedAt };
}
