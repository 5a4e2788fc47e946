import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Etcd, Leadership } from "../../stores/etcd/index.ts";
import { batchesOf, isWrite, taskOf, type Write } from "./commit.ts";
import { createLedger } from "./ledger.ts";
import type { Mirrored } from "./mirror.ts";
import { recordReasons } from "./reasons.ts";
import { createRecent } from "./recent.ts";
import type { SchedulerMemory } from "./score.ts";
import { readClusterState, type SchedulerFleet } from "./snapshot.ts";
import { schedule } from "./steps.ts";
import type { SchedulerRows } from "./store.ts";

export interface SchedulerDeps {
  clock: Clock;
  rows: SchedulerRows;
  etcd: Pick<Etcd, "range">;
  fleet: SchedulerFleet;
  leadership: Leadership;
  log: Log;
  metrics?: Pick<Metrics, "schedulerDecisions"> | undefined;
  memory?: SchedulerMemory | undefined;
  /** How long a round waits for more to do before it begins, so that what comes at once is decided at once; 0 unless given. */
  windowMs?: number;
}

/** How often a round decides anew what was refused, before it leaves the rest to the next one. */
const triesMax = 3;

/**
 * Returns the round of one leadership: it reads, decides, commits. Safe to repeat and to lose at any point: etcd is
 * written first, and what Postgres did not learn it learns in the next round. Rounds must not overlap.
 */
export function createScheduler(deps: SchedulerDeps): () => Promise<void> {
  const { clock, rows, fleet, leadership, log, windowMs = 0 } = deps;
  const ledger = createLedger(deps);
  const recent = createRecent();

  /** False when etcd has something else than was decided on, so that the rest has to be decided anew. */
  async function commit(steps: readonly Write[]): Promise<boolean> {
    for (const { steps: batch, change } of batchesOf(steps)) {
      if (!(await ledger.commit(change))) return false;
      await rows.mirror(leadership.epoch, mirroredBy(batch));
      for (const step of batch) {
        deps.metrics?.schedulerDecisions.inc({ decision: step.do });
        log.info(summary(step), "placement");
      }
    }
    return true;
  }

  return async () => {
    if (windowMs > 0) await pause(clock, windowMs, leadership.signal);
    for (let tries = 1; tries <= triesMax; tries += 1) {
      const { placed, unreadable } = await ledger.read();
      const { reasons, ...state } = await readClusterState(rows, fleet, placed);
      const tasks = unreadable.size === 0 ? state.tasks : state.tasks.filter(({ id }) => !unreadable.has(id));
      const hints = recent.note(placed, state.observed, fleet.now());
      if (deps.memory !== undefined) deps.memory.hints = hints;
      const steps = schedule({ ...state, tasks, hints });
      if (!(await commit(steps.filter(isWrite)))) continue;
      await recordReasons(rows, steps, reasons);
      // The next round publishes it.
      await rows.endDrains(steps.flatMap((step) => (step.do === "endDrain" ? [step.taskId] : [])));
      return;
    }
    log.warn("etcd kept having other placements than this leader made");
  };
}

/** One round that knows nothing of any before. */
export const scheduleOnce = (deps: SchedulerDeps): Promise<void> => createScheduler(deps)();

/** What Postgres has to know of what was done. */
const mirroredBy = (steps: readonly Write[]): Mirrored => ({
  placed: steps.flatMap((step) =>
    step.do === "place" || step.do === "mirror" ? [{ taskId: taskOf(step), nodeId: step.nodeId }] : [],
  ),
  reaped: steps.filter((step) => step.do === "reap").map(taskOf),
});

function summary(step: Write): Record<string, unknown> {
  const { nodeId } = step;
  const about = { taskId: taskOf(step), nodeId };
  switch (step.do) {
    case "place":
      return { ...about, to: "placed", ownerId: step.task.ownerId };
    case "move":
      return { ...about, from: step.placement.desired, to: step.desired };
    case "resize":
      return { ...about, to: "other limits", ...step.limits, generation: step.generation };
    case "reap":
      return { ...about, to: "reaped" };
    case "mirror":
      return { ...about, to: "known" };
  }
}
