import { sql } from "kysely";
import type { Fleet } from "../cluster/fleet.ts";
import { keys, type PlacementValue } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";
import { holdDeployment, insertEvent, lockTasks } from "../deployments/store.ts";
import type { Etcd, Guard, Leadership, Op } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import { readClusterState, readPlaced } from "./snapshot.ts";
import { type SchedulerStep, schedule } from "./steps.ts";

export interface SchedulerDeps {
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Leadership;
  log: Log;
}

/** Steps of one etcd transaction: each is at most two operations, and a transaction takes 120. */
const batchSize = 50;

/**
 * One round: reads, decides, commits. Safe to repeat and to lose at any point: etcd is written
 * first, and what Postgres did not learn it learns in the next round.
 */
export async function scheduleOnce({ db, etcd, fleet, leadership, log }: SchedulerDeps): Promise<void> {
  let steps = schedule(await readClusterState(db, fleet));
  // The view may not show yet what this or the last leader wrote. A step that rests on a placement's absence is
  // decided again on what etcd has: only the leader writes placements, so there absent means never placed.
  if (steps.some(restsOnAbsence)) steps = schedule(await readClusterState(db, fleet, await readPlaced(etcd)));
  const writes = steps.filter((step) => step.do !== "refuse" && step.do !== "keep");
  for (let at = 0; at < writes.length; at += batchSize) {
    const batch = writes.slice(at, at + batchSize);
    const { succeeded } = await leadership.txn(batch.flatMap(opsOf), batch.flatMap(guardsOf));
    // The view was behind: the next round starts from what is there.
    if (!succeeded) return;
    await inFencedTransaction(db, leadership.epoch, async (tx) => {
      await lockTasks(tx, batch.flatMap(mirroredTask));
      for (const step of batch) await mirror(tx, step);
    });
    for (const step of batch) log.info({ ...summary(step) }, "placement");
  }
  await recordRefusals(db, steps);
}

const restsOnAbsence = (step: SchedulerStep): boolean =>
  step.do === "place" || (step.do === "reap" && step.nodeId === null);

function opsOf(step: SchedulerStep): Op[] {
  switch (step.do) {
    case "place": {
      const { id, platform: _, nodeId: __, refused: ___, ...task } = step.task;
      return [put(step.nodeId, { ...task, placementId: id, limitsGeneration: 0 })];
    }
    case "move": {
      const { nodeId, modRevision: _, ...placement } = step.placement;
      return [put(nodeId, { ...placement, desired: step.desired })];
    }
    case "resize": {
      const { nodeId, modRevision: _, ...placement } = step.placement;
      return [put(nodeId, { ...placement, ...step.limits, limitsGeneration: step.generation })];
    }
    case "reap":
      return step.nodeId === null
        ? []
        : [
            { delete: { key: keys.placement(step.nodeId, step.taskId) } },
            { delete: { key: keys.observation(step.nodeId, step.taskId) } },
          ];
    case "mirror":
    case "refuse":
    case "keep":
      return [];
  }
}

const put = (nodeId: string, value: PlacementValue): Op => ({
  put: { key: keys.placement(nodeId, value.placementId), value: JSON.stringify(value) },
});

/**
 * A placement is created once, and a generation of its limits means one thing: a leader that reads an old view must
 * not write it a second time.
 */
function guardsOf(step: SchedulerStep): Guard[] {
  if (step.do === "place") return [{ key: keys.placement(step.nodeId, step.task.id), compare: "absent" }];
  if (step.do !== "resize") return [];
  const { placementId, modRevision } = step.placement;
  return [{ key: keys.placement(step.nodeId, placementId), compare: "modRevision", value: modRevision }];
}

/** Runs `work` unless a newer leader has written to Postgres; then this one has to stop. */
async function inFencedTransaction(db: Db, epoch: bigint, work: (tx: Db) => Promise<void>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable("leader_fence")
      .set({ epoch: Number(epoch) })
      .where("epoch", "<=", Number(epoch))
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) throw new Error("a newer leader is at work");
    await work(tx);
  });
}

/** The task whose row a step changes, if there is one. */
function mirroredTask(step: SchedulerStep): string[] {
  if (step.do === "place") return [step.task.id];
  return step.do === "mirror" || step.do === "reap" ? [step.taskId] : [];
}

async function mirror(tx: Db, step: SchedulerStep): Promise<void> {
  if (step.do === "place") {
    await tx.updateTable("task").set({ node_id: step.nodeId, refused: null }).where("id", "=", step.task.id).execute();
  } else if (step.do === "mirror") {
    await tx.updateTable("task").set({ node_id: step.nodeId, refused: null }).where("id", "=", step.taskId).execute();
  } else if (step.do === "reap") {
    await tx.updateTable("task").set({ reaped_at: sql<Date>`now()` }).where("id", "=", step.taskId).execute();
  }
}

/** Why a task waits, or keeps what it has, is written only when it changes. */
async function recordRefusals(db: Db, steps: readonly SchedulerStep[]): Promise<void> {
  for (const step of steps) {
    if (step.do === "refuse") await recordReason(db, step.taskId, step.refused);
    if (step.do !== "keep") continue;
    await db.transaction().execute(async (tx) => {
      const isThere = await holdDeployment(tx, step.deploymentId);
      if (!(await recordReason(tx, step.taskId, { [step.reason]: 1 }))) return;
      const detail = `The plan's limits do not reach a running container: ${step.reason}. It keeps those that it has, until that changes or the next deployment.`;
      if (isThere) await insertEvent(tx, { deploymentId: step.deploymentId, phase: "limits-kept", detail });
    });
  }
}

/** False when that was the reason already. */
async function recordReason(db: Db, taskId: string, reasons: Readonly<Record<string, number>>): Promise<boolean> {
  const refused = JSON.stringify(reasons);
  const { numUpdatedRows } = await db
    .updateTable("task")
    .set({ refused })
    .where("id", "=", taskId)
    .where(sql<boolean>`refused is distinct from ${refused}::jsonb`)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

function summary(step: SchedulerStep): Record<string, unknown> {
  if (step.do === "place")
    return { taskId: step.task.id, nodeId: step.nodeId, to: "placed", deploymentId: step.task.deploymentId };
  if (step.do === "move")
    return { taskId: step.placement.placementId, nodeId: step.nodeId, from: step.placement.desired, to: step.desired };
  if (step.do === "resize") {
    const { limits, generation } = step;
    return { taskId: step.placement.placementId, nodeId: step.nodeId, to: "other limits", ...limits, generation };
  }
  if (step.do === "reap") return { taskId: step.taskId, nodeId: step.nodeId, to: "reaped" };
  return {};
}
