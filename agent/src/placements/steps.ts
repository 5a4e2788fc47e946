// @pure
import type { FailureCode } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import type { Container } from "../engine/engine.ts";
import { isReasonNews, reasonDueMs } from "../engine/kill-reason.ts";
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
  | { do: "prove"; startedMs: number; untilMs: number }
  /** Looks at a healthy container from time to time. */
  | { do: "watch" }
  | ({ do: "count-crash"; crash: Crash } & End)
  /** Tells why a counted crash really was, which the engine said only afterwards. */
  | ({ do: "explain-crash" } & End)
  /** Throws away a container that cannot be used any more, to make another. */
  | { do: "discard" }
  /** Lets a container that is to go serve what is open, until nothing is or the time is up. */
  | { do: "drain"; untilMs: number }
  | { do: "stop" }
  | { do: "remove" }
  | { do: "build" }
  | { do: "settle"; observed: typeof Observed.STOPPED | typeof Observed.REMOVED }
  | ({ do: "fail" } & End);

/** How a process ended by itself, with the words for it. */
interface End {
  code: FailureCode;
  message: string;
  exitCode: number;
  oomKilled: boolean;
}

/** What the decision looks at. */
export interface View {
  /** `unknown` when the journal was lost and only the container's labels are left. */
  kind: "serve" | "build" | "unknown";
  desired: Desired;
  observed: Observed;
  memory: Memory;
  memoryMb: number;
  healthTimeoutMs: number;
  /** How long it may serve what is open once it is to go. */
  drainMs: number;
  /** Null when there is none, and always for a build. */
  container: Pick<
    Container,
    "id" | "state" | "exitCode" | "oomKilled" | "oomScope" | "startedAt" | "finishedAt"
  > | null;
  /** The container's limits are to be changed, or to be told of; see `isLimitsDue`. */
  limitsDue: boolean;
  /** Whether this agent has made sure of the image since it started. */
  imageReady: boolean;
  nowMs: number;
}

/**
 * The next step of one placement. A stop is decided before anything that starts, and a placement that has
 * come to an end never starts again: a replacement has an id of its own.
 */
export function nextStep(view: View): Step {
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
  if (view.kind === "unknown" || view.desired === Desired.UNSPECIFIED) return { do: "rest" };
  // Room on the disk is given back before the wait for the next start, not after it.
  if (hasOverflowed(view) && view.container !== null && view.memory.countedExit === nameOfExit(view.container)) {
    return { do: "discard" };
  }
  const late = lateReason(view);
  if (late !== null) return late;
  const { retrySinceMs, retryAtMs } = view.memory;
  // A wait that begins later than now is one by a clock that has been set back: by this one nobody knows when it ends.
  if (retrySinceMs <= view.nowMs && view.nowMs < retryAtMs) return { do: "wait", untilMs: retryAtMs };
  if (view.kind === "build") return view.desired === Desired.RUNNING ? { do: "build" } : { do: "rest" };
  return nextServeStep(view);
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
    case "running": {
      if (memory.wasHealthy) return { do: "watch" };
      const startedMs = parseTime(container.startedAt, view.nowMs);
      return { do: "prove", startedMs, untilMs: startedMs + view.healthTimeoutMs };
    }
    case "exited":
      return afterExit(view, container);
    case "other":
      return { do: "discard" };
  }
}

function afterExit(view: View, container: NonNullable<View["container"]>): Step {
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
  const crash = nextCrash(view.memory.crashes, ranForMs, exit);
  if (crash === null) return fail("given-up");
  // What has passed since counts, unless the clock was set back.
  const delayMs = Math.max(0, crash.delayMs - Math.max(0, view.nowMs - endedMs));
  return { do: "count-crash", crash: { ...crash, delayMs }, ...explain("restarting"), ...ended };
}

/** Visitors wait for the next start, so a crash is counted before the engine has said why: here it did. */
function lateReason({ container, memory, memoryMb, kind, nowMs }: View): Step | null {
  if (kind !== "serve" || container === null || memory.countedOom || memory.countedExit === "") return null;
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
