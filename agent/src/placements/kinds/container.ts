// @pure
import { Desired } from "@svc/proto/node";
import { reasonDueMs } from "../../engine/kill-reason.ts";
import { nextCrash, type Pace } from "../crash.ts";
import { hasOverflowed, nameOfExit, parseTime } from "../end.ts";
import { type EndedWhen, explainEnd } from "../exit.ts";
import type { Step, View } from "../view.ts";

/** What is done with a container that runs, which began at `startedMs`. */
type WhileRunning = (view: View, startedMs: number) => Step;

/**
 * The next step of whatever runs in a container until it is told to go: from its image to its start, and again after each
 * end, more and more rarely. What is done while it runs is its kind's to say, and `pace` how rarely, unless it is as of an app.
 */
export function nextContainerStep(view: View, whileRunning: WhileRunning, pace?: Pace): Step {
  const { container } = view;
  if (container === null) return view.imageReady ? { do: "create" } : { do: "pull" };
  const step = onwardStep(view, container, whileRunning, pace);
  // A start has other limits, and what ended tells of those that it ended with.
  const comesAfterLimits = container.state === "running" || step.do === "rest" || step.do === "start";
  return view.limitsDue && container.state !== "other" && comesAfterLimits ? { do: "limit" } : step;
}

function onwardStep(
  view: View,
  container: NonNullable<View["container"]>,
  whileRunning: WhileRunning,
  pace: Pace | undefined,
): Step {
  if (view.desired === Desired.READY) return { do: "rest" };
  switch (container.state) {
    case "created":
      return { do: "start" };
    case "running":
      return whileRunning(view, parseTime(container.startedAt, view.nowMs));
    case "exited":
      return afterExit(view, container, pace);
    case "other":
      return { do: "discard" };
  }
}

function afterExit(view: View, container: NonNullable<View["container"]>, pace: Pace | undefined): Step {
  const { exitCode, oomKilled, oomScope } = container;
  const overflowMb = hasOverflowed(view) ? view.memory.overflowMb : 0;
  const ended = { exitCode, oomKilled };
  const explain = (when: EndedWhen) => explainEnd({ ...ended, oomScope, overflowMb }, view.memoryMb, when);
  // Whoever is not started again can wait for the whole reason.
  const fail = (when: EndedWhen): Step => {
    const dueMs = reasonDueMs(container, view.nowMs);
    return dueMs > 0 ? { do: "wait", untilMs: view.nowMs + dueMs } : { do: "fail", ...explain(when), ...ended };
  };
  if (!view.memory.wasHealthy) return fail("before-answering");
  const exit = nameOfExit(container);
  // Counted before, and the wait is over.
  if (view.memory.countedExit === exit) return { do: "start" };
  const endedMs = parseTime(container.finishedAt, view.nowMs);
  const ranForMs = endedMs - parseTime(container.startedAt, view.nowMs);
  const crash = nextCrash(view.memory.crashes, ranForMs, exit, pace);
  if (crash === null) return fail("given-up");
  // What has passed since counts, unless the clock was set back.
  const delayMs = Math.max(0, crash.delayMs - Math.max(0, view.nowMs - endedMs));
  return { do: "count-crash", crash: { ...crash, delayMs }, ...explain("restarting"), ...ended };
}
