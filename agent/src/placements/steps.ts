import type { FailureCode } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import type { Container } from "../engine/engine.ts";
import { reasonDueMs } from "../engine/kill-reason.ts";
import type { Memory } from "../journal/records.ts";
import { type Crash, nextCrash } from "./crash.ts";
import { type EndedWhen, explainEnd } from "./exit.ts";

/** One move that brings a placement nearer to what is desired. Each may be repeated safely. */
export type Step =
  /** Nothing to do until something changes. */
  | { do: "rest" }
  | { do: "wait"; untilMs: number }
  | { do: "pull" }
  | { do: "create" }
  | { do: "start" }
  /** Gives the container the limits that it is to have, and tells control which it has. */
  | { do: "limit" }
  /** Waits until the first start answers its health path, or has failed to. */
  | { do: "prove"; untilMs: number }
  /** Looks at a healthy container from time to time. */
  | { do: "watch" }
  | ({ do: "count-crash"; crash: Crash } & End)
  /** Throws away a container that cannot be used any more, to make another. */
  | { do: "discard" }
  | { do: "stop" }
  | { do: "remove" }
  | { do: "build" }
  | { do: "settle"; observed: typeof Observed.STOPPED | typeof Observed.REMOVED }
  | ({ do: "fail" } & End);

/** How a process ended by itself, with the words for it. */
type End = { code: FailureCode; message: string; exitCode: number; oomKilled: boolean };

/** What the decision looks at. */
export type View = {
  /** `unknown` when the journal was lost and only the container's labels are left. */
  kind: "serve" | "build" | "unknown";
  desired: Desired;
  observed: Observed;
  memory: Memory;
  memoryMb: number;
  healthTimeoutMs: number;
  /** Null when there is none, and always for a build. */
  container: Pick<Container, "id" | "state" | "exitCode" | "oomKilled" | "startedAt" | "finishedAt"> | null;
  /** The container's limits are to be changed, or to be told of; see `isLimitsDue`. */
  limitsDue: boolean;
  /** Whether this agent has made sure of the image since it started. */
  imageReady: boolean;
  nowMs: number;
};

/**
 * The next step of one placement. A stop is decided before anything that starts, and a placement that has
 * come to an end never starts again: a replacement has an id of its own.
 */
export function nextStep(view: View): Step {
  if (view.observed === Observed.REMOVED) return { do: "rest" };
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
  if (view.kind === "unknown" || view.desired === Desired.UNSPECIFIED) return { do: "rest" };
  // Room on the disk is given back before the wait for the next start, not after it.
  if (hasOverflowed(view) && view.container !== null && view.memory.countedExit === nameOfExit(view.container)) {
    return { do: "discard" };
  }
  if (view.memory.retryAtMs > view.nowMs) return { do: "wait", untilMs: view.memory.retryAtMs };
  if (view.kind === "build") return view.desired === Desired.RUNNING ? { do: "build" } : { do: "rest" };
  return nextServeStep(view);
}

/** What comes after other limits: a start has them, and what ended tells of those that it ended with. */
const comesAfterLimits: ReadonlySet<Step["do"]> = new Set(["rest", "start", "prove", "watch"]);

function nextServeStep(view: View): Step {
  const { container } = view;
  if (container === null) return view.imageReady ? { do: "create" } : { do: "pull" };
  const step = onwardStep(view, container);
  return view.limitsDue && container.state !== "other" && comesAfterLimits.has(step.do) ? { do: "limit" } : step;
}

function onwardStep(view: View, container: NonNullable<View["container"]>): Step {
  const { memory } = view;
  if (view.desired === Desired.READY) return { do: "rest" };
  switch (container.state) {
    case "created":
      return { do: "start" };
    case "running":
      if (memory.wasHealthy) return { do: "watch" };
      return { do: "prove", untilMs: parseTime(container.startedAt, view.nowMs) + view.healthTimeoutMs };
    case "exited":
      return afterExit(view, container);
    case "other":
      return { do: "discard" };
  }
}

function afterExit(view: View, container: NonNullable<View["container"]>): Step {
  const { exitCode, oomKilled } = container;
  const overflowMb = hasOverflowed(view) ? view.memory.overflowMb : 0;
  const ended = { exitCode, oomKilled };
  const dueMs = reasonDueMs(container, view.nowMs);
  if (dueMs > 0) return { do: "wait", untilMs: view.nowMs + dueMs };
  const explain = (when: EndedWhen) => explainEnd({ ...ended, overflowMb }, view.memoryMb, when);
  if (!view.memory.wasHealthy) return { do: "fail", ...explain("before-answering"), ...ended };
  const exit = nameOfExit(container);
  // Counted before, and the wait is over.
  if (view.memory.countedExit === exit) return { do: "start" };
  const ranForMs = parseTime(container.finishedAt, view.nowMs) - parseTime(container.startedAt, view.nowMs);
  const crash = nextCrash(view.memory.crashes, ranForMs, exit);
  if (crash === null) return { do: "fail", ...explain("given-up"), ...ended };
  return { do: "count-crash", crash, ...explain("restarting"), ...ended };
}

/** Whether the container has ended, and was ended for what it wrote: only without it there is room again. */
const hasOverflowed = ({ container, memory }: View): boolean =>
  container?.state === "exited" && memory.overflowOf === container.id;

/** An engine that was killed itself may not know when something ended. Still it is one end, and not many. */
const nameOfExit = ({ finishedAt, startedAt }: Pick<Container, "finishedAt" | "startedAt">): string =>
  finishedAt ?? `after ${startedAt}`;

/** States after which a placement never runs again. */
export const isTerminal = (observed: Observed): boolean => observed >= Observed.COMPLETED;

function parseTime(text: string | null, otherwiseMs: number): number {
  const timeMs = text === null ? Number.NaN : Date.parse(text);
  return Number.isNaN(timeMs) ? otherwiseMs : timeMs;
}
