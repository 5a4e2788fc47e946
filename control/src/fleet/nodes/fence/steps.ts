// @pure
import { isRunOver, type RunValue } from "../../cluster/keys.ts";
import type { KindOfRun } from "../../tasks/run-kinds/run-kind.ts";

/**
 * What becomes of an attempt whose node was fenced or removed, and will not tell; null when it is over already. What was
 * granted may have started, and is never offered again; what was not cannot have, so that another node may do it.
 * `kind`: that of the run.
 */
export function runAfterFence(run: RunValue, { called }: Pick<KindOfRun, "called">, now: Date): RunValue | null {
  if (isRunOver(run.state)) return null;
  const changedAt = now.toISOString();
  const lost = `The node that ran the ${called.one} was declared lost, so its outcome is not known.`;
  const never = `The node that was to run the ${called.one} was declared lost before it began.`;
  return run.state === "granted" || run.state === "started"
    ? { ...run, state: "indeterminate", message: lost, changedAt }
    : { ...run, state: "not_started", message: never, changedAt };
}
