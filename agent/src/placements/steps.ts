// @pure
import { Desired, Observed } from "@svc/proto/node";
import { isReasonNews } from "../engine/kill-reason.ts";
import { hasOverflowed, nameOfExit } from "./end.ts";
import { explainEnd } from "./exit.ts";
import { kindNamed } from "./kinds/index.ts";
import type { PlacementKind } from "./kinds/kind.ts";
import { isTerminal, type Step, type View } from "./view.ts";

/**
 * The next step of one placement. A stop is decided before anything that starts, and a placement that has
 * come to an end never starts again: a replacement has an id of its own. `kind`: null for one that nobody knows.
 */
export function nextStep(
  view: View,
  kind: Pick<PlacementKind<never>, "next" | "rebootsWith"> | null = kindNamed(view.kind),
): Step {
  if (view.observed === Observed.REMOVED) return { do: "rest" };
  const drainUntilMs = drainEnd(view);
  if (drainUntilMs > view.nowMs) return { do: "drain", untilMs: drainUntilMs };
  if (view.desired === Desired.REMOVED) {
    return view.container === null ? { do: "settle", observed: Observed.REMOVED } : { do: "remove" };
  }
  const isRunning = view.container?.state === "running";
  if (isTerminal(view.observed)) {
    if (isRunning) return { do: "stop" };
    return hasOverflowed(view) ? { do: "discard" } : { do: "rest" };
  }
  if (view.desired === Desired.STOPPED) {
    return isRunning ? { do: "stop" } : { do: "settle", observed: Observed.STOPPED };
  }
  if (kind === null || view.desired === Desired.UNSPECIFIED) return { do: "rest" };
  // Room on the disk is given back before the wait for the next start, not after it.
  if (hasOverflowed(view) && view.container !== null && view.memory.countedExit === nameOfExit(view.container)) {
    return { do: "discard" };
  }
  const late = lateReason(view);
  if (late !== null) return late;
  const { retrySinceMs, retryAtMs } = view.memory;
  // A wait that begins later than now is one by a clock that has been set back: by this one nobody knows when it ends.
  if (retrySinceMs <= view.nowMs && view.nowMs < retryAtMs) return { do: "wait", untilMs: retryAtMs };
  if (kind.rebootsWith === "grant" && !view.isGranted && !isRunning) return { do: "rest" };
  return kind.next(view);
}

/**
 * Until when a container that is to go serves what is open. Never longer than from now: control may have shortened it,
 * and the clock may have been set back.
 */
function drainEnd({ desired, observed, container, memory, drainMs, nowMs }: View): number {
  const isServing = container?.state === "running" && memory.wasHealthy && !isTerminal(observed);
  if (desired !== Desired.REMOVED || !isServing) return nowMs;
  return Math.min(memory.drainUntilMs || Number.POSITIVE_INFINITY, nowMs + drainMs);
}

/** Visitors wait for the next start, so a crash is counted before the engine has said why: here it did. */
function lateReason({ container, memory, memoryMb, nowMs }: View): Step | null {
  if (container === null || memory.countedOom || memory.countedExit === "") return null;
  if (memory.countedExit !== nameOfExit(container) || !isReasonNews(container, nowMs)) return null;
  // A process that the app has lost does not end one that then ends well.
  if (memory.countedCode === 0) return null;
  // Of one that runs again the engine has no exit code any more.
  const ended = { exitCode: memory.countedCode, oomKilled: true };
  return {
    do: "explain-crash",
    ...explainEnd({ ...ended, oomScope: container.oomScope }, memoryMb, "restarting"),
    ...ended,
  };
}
