import { failureMessage } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Container, Engine } from "../engine/engine.ts";
import { isEngineTrouble } from "../engine/errors.ts";
import { hasOpen } from "../health/open.ts";
import type { Log } from "../log.ts";
import type { Machine } from "../node/machine.ts";
import { restlessPauseMs, retryDelayMs } from "./crash.ts";
import type { Runner, Turn } from "./executors/executor.ts";
import { TaskFailure, toFailure } from "./failure.ts";
import { kindOf } from "./kinds/index.ts";
import { isLimitsDue, pauseOf } from "./limits.ts";
import { containerName } from "./names.ts";
import { nextStep } from "./steps.ts";
import type { Task } from "./task.ts";
import { isTerminal, type Step, type View } from "./view.ts";

/** Why an actor should look again. */
export type Wake =
  /** Control wants something else: also breaks off long work. */
  | "desired"
  /** Something happened to the container. */
  | "engine";

/** The one who acts for a placement: one step at a time, the newest wish first. */
export interface Actor {
  wake(why: Wake): void;
  /** Settles once the actor has stopped after its signal aborted. */
  readonly done: Promise<void>;
}

/** Steps that only wait, and end with any wake. */
const idle = new Set<Step["do"]>([
  "rest",
  "wait",
  "prove",
  "prove-database",
  "watch",
  "watch-database",
  "watch-keeper",
  "drain",
]);
/** Steps that take long and end when something else is wanted. The others are short and run to their end. */
const long = new Set<Step["do"]>(["pull", "build", "start", "backup", "prove-copy", "pull-browser", "capture"]);

const attemptsMax = 3;
const troublePauseMs = 2_000;
const troublePauseMaxMs = 30_000;
/** After so many misses in a row people are told. Nothing else changes: what runs may well go on without its engine. */
const troublesTold = 3;
const engineStalled = {
  code: "NODE_UNAVAILABLE",
  message: "The container engine of the node does not answer.",
} as const;

export function createActor(options: {
  clock: Clock;
  task: Task;
  engine: Engine;
  runner: Runner;
  machine: Pick<Machine, "bootId" | "tcpTables">;
  signal: AbortSignal;
  log: Log;
}): Actor {
  const { clock, task, engine, runner, machine, signal } = options;
  const log = options.log.child({ placementId: task.id });
  let woken = false;
  /** What is under way, and which wakes end it. */
  let current: { endedBy: readonly Wake[]; abort: AbortController } | null = null;
  let attempts = 0;
  /** What failed last. Only its success ends the count: others may well succeed in between, again and again. */
  let failed: Step["do"] | null = null;
  let troubles = 0;
  /** How often each step was done since one that only waits, or since something else was wanted. */
  const moves = new Map<Step["do"], number>();
  /** Whether the next step was waited for already. */
  let hasCalmedDown = false;

  const look = async (): Promise<{ view: View; container: Container | null }> => {
    const { placement, status, memory } = task.record();
    const kind = kindOf(placement);
    // Where the journal was lost only its container says what there is.
    const hasContainer = kind === null || kind.container !== null;
    const container = hasContainer ? await engine.findContainer(containerName(task.id)) : null;
    const port = kind?.container?.port;
    const mayDrain = placement.desired === Desired.REMOVED && placement.drainSeconds > 0;
    const isOpen =
      mayDrain && container !== null && port !== undefined && (await hasOpen(machine.tcpTables, container.pid, port));
    // After the look, which may take long: what ended meanwhile ended before this.
    const nowMs = clock.now().getTime();
    return {
      container,
      view: {
        kind: kind?.name ?? "unknown",
        desired: placement.desired,
        observed: status.observed,
        memory,
        memoryMb: container?.limits.memoryMb ?? 0,
        healthTimeoutMs: kind?.healthTimeoutMs ?? 0,
        drainMs: placement.drainSeconds * 1000,
        isOpen,
        container,
        limitsDue:
          container !== null &&
          isLimitsDue({
            wanted: placement.resources,
            inForce: container.limits,
            reserved: container.reserved,
            told: status.resources,
            toldProblem: status.resourcesProblem,
            pause: pauseOf(container),
            memory,
            nowMs,
          }),
        isGranted: memory.grantedIn === machine.bootId,
        imageReady: task.imageReady,
        nowMs,
      },
    };
  };

  const turn = async (): Promise<void> => {
    woken = false;
    const { view, container } = await look();
    if (woken) return;
    const step = nextStep(view);
    const isIdle = idle.has(step.do);
    const pauseMs = restlessPauseMs(moves.get(step.do) ?? 0);
    if (pauseMs > 0 && !hasCalmedDown) return calmDown(step.do, pauseMs);
    hasCalmedDown = false;
    const abort = new AbortController();
    current = { endedBy: isIdle ? ["desired", "engine"] : long.has(step.do) ? ["desired"] : [], abort };
    try {
      if (!isIdle) log.info({ step: step.do, observed: view.observed, desired: view.desired }, "step");
      await perform(runner, step, { task, container, signal: AbortSignal.any([signal, abort.signal]) });
      if (step.do === failed) attempts = 0;
      if (troubles >= troublesTold && task.record().status.failure?.code === engineStalled.code) {
        task.update({ failure: null });
      }
      troubles = 0;
      if (isIdle) moves.clear();
      else moves.set(step.do, (moves.get(step.do) ?? 0) + 1);
    } catch (cause) {
      if (!signal.aborted && !abort.signal.aborted) await handle(cause, step);
    } finally {
      current = null;
    }
  };

  /** Holds back a step that succeeds and changes nothing, until something else is wanted. */
  const calmDown = async (step: Step["do"], pauseMs: number): Promise<void> => {
    log.warn({ step, times: moves.get(step), pauseMs }, "a step changes nothing");
    const abort = new AbortController();
    current = { endedBy: ["desired"], abort };
    await pause(clock, pauseMs, AbortSignal.any([signal, abort.signal]));
    current = null;
    hasCalmedDown = true;
  };

  /** Once, unless it cannot be written: then the next time. What has come to an end keeps its own reason. */
  const tellOfEngine = (): void => {
    const { observed, failure } = task.record().status;
    if (isTerminal(observed) || failure?.code === engineStalled.code) return;
    try {
      task.update({ failure: toFailure(engineStalled) });
    } catch (cause) {
      log.error({ reason: String(cause) }, "that the engine does not answer could not be recorded");
    }
  };

  const waitForEngine = async (cause: unknown, step: Step["do"] | "look"): Promise<void> => {
    troubles += 1;
    log.error({ step, troubles, reason: String(cause) }, "the container engine does not answer as it should");
    if (troubles >= troublesTold) tellOfEngine();
    await pause(clock, Math.min(troublePauseMaxMs, troublePauseMs * troubles), signal);
  };

  const handle = async (cause: unknown, step: Step): Promise<void> => {
    if (isEngineTrouble(cause)) return waitForEngine(cause, step.do);
    const failure = cause instanceof TaskFailure ? cause : unexpected(cause);
    attempts += 1;
    failed = step.do;
    const { wasHealthy } = task.record().memory;
    // A site that has served before is brought back however long that takes.
    const isWorthTrying = failure.isTransient && (wasHealthy || attempts < attemptsMax);
    log.warn(
      { step: step.do, code: failure.code, attempts, err: failure.cause, reason: failure.message },
      "step failed",
    );
    if (isWorthTrying || step.do === "stop" || step.do === "remove") {
      const retrySinceMs = clock.now().getTime();
      task.update({ memory: { retrySinceMs, retryAtMs: retrySinceMs + retryDelayMs(attempts) } });
      // Stopping and removing do not look at the wait, so it is kept here.
      if (step.do === "stop" || step.do === "remove") await pause(clock, retryDelayMs(attempts), signal);
      return;
    }
    const { code, message, exitCode } = failure;
    task.update({ observed: Observed.FAILED, upstream: "", failure: toFailure({ code, message, exitCode }) });
  };

  const live = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await turn();
      } catch (cause) {
        // Looking itself failed: nothing is known of the container, so nothing may be concluded.
        if (!signal.aborted) await waitForEngine(cause, "look");
      }
    }
  };

  return {
    wake(why) {
      woken = true;
      if (why === "desired") moves.clear();
      if (current === null) return;
      if (current.endedBy.includes(why)) current.abort.abort();
    },
    done: live(),
  };
}

/** Calls the effect of a step. The map and the step have the same key, which the compiler cannot follow by itself. */
function perform<K extends Step["do"]>(runner: Runner, step: Extract<Step, { do: K }>, turn: Turn): Promise<void> {
  const effect: (step: Extract<Step, { do: K }>, turn: Turn) => Promise<void> = runner[step.do as K];
  return effect(step, turn);
}

const unexpected = (cause: unknown): TaskFailure =>
  new TaskFailure("NODE_TASK_FAILED", failureMessage("NODE_TASK_FAILED"), { isTransient: true, cause });
