import { Observed, type PlacementStatus, RunPhase, type RunStatus } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Engine } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import type { Metrics } from "./metrics.ts";

/** Calls that last as long as what they follow, and say nothing about the engine's speed. */
const following: ReadonlySet<string> = new Set(["followEvents", "followLog"]);

/** The same engine, with every call counted. */
export function countCalls(clock: Clock, engine: Engine, metrics: Metrics): Engine {
  const counted = Object.entries(engine).map(([call, run]: [string, (...args: never[]) => Promise<unknown>]) => [
    call,
    async (...args: never[]): Promise<unknown> => {
      const startedAtMs = clock.steadyMs();
      try {
        const result = await run(...args);
        if (call === "pullImage") metrics.pulls.inc({ outcome: "ok" });
        return result;
      } catch (cause) {
        if (call === "pullImage") metrics.pulls.inc({ outcome: "failed" });
        metrics.engineErrors.inc({ call, kind: cause instanceof EngineError ? cause.kind : "aborted" });
        throw cause;
      } finally {
        if (!following.has(call)) metrics.engineSeconds.observe({ call }, (clock.steadyMs() - startedAtMs) / 1000);
      }
    },
  ]);
  // Each entry has the type of the one it was made from.
  return Object.fromEntries(counted) as Engine;
}

/** Counts what becomes of placements, from each status of theirs. */
export function countStatuses(metrics: Metrics, isBuild: (placementId: string) => boolean) {
  const last = new Map<string, Pick<PlacementStatus, "restartSeq" | "observed">>();
  return ({ placementId, restartSeq, observed }: PlacementStatus): void => {
    const before = last.get(placementId);
    if (observed === Observed.REMOVED) last.delete(placementId);
    else last.set(placementId, { restartSeq, observed });
    // What an earlier process of this agent saw is not counted again.
    if (before === undefined) return;
    if (restartSeq > before.restartSeq) metrics.restarts.inc(restartSeq - before.restartSeq);
    if (observed === before.observed || !isBuild(placementId)) return;
    if (observed === Observed.COMPLETED) metrics.builds.inc({ outcome: "completed" });
    if (observed === Observed.FAILED) metrics.builds.inc({ outcome: "failed" });
  };
}

const outcomes: Readonly<Partial<Record<RunPhase, string>>> = {
  [RunPhase.EXITED]: "exited",
  [RunPhase.NOT_STARTED]: "not started",
  [RunPhase.INDETERMINATE]: "indeterminate",
};
const countedMax = 1_000;

/** Counts the end of each attempt once, however often it is told. */
export function countRuns(metrics: Metrics) {
  const counted = new Set<string>();
  return ({ attemptId, phase }: RunStatus): void => {
    const outcome = outcomes[phase];
    if (outcome === undefined || counted.has(attemptId)) return;
    if (counted.size >= countedMax) counted.clear();
    counted.add(attemptId);
    metrics.runs.inc({ outcome });
  };
}
