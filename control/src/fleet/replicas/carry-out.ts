import { sql } from "kysely";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import { inFencedTransaction } from "../cluster/fenced.ts";
import { routeTopic } from "../cluster/topics.ts";
import { lockTasks, removeTasks } from "../tasks/change.ts";
import { findDeployment, insertEvent } from "../tasks/deployment.ts";
import { drainSecondsAfter, drainSecondsIn } from "../tasks/drain.ts";
import { holdToMake, makeContainers } from "./make.ts";
import type { Cause, ReplicaStep, Site } from "./steps.ts";

const because: Readonly<Record<Cause, string>> = {
  missing: "it was not there",
  ended: "its container has ended for good",
  "node lost": "its node does not answer any more",
  "node quarantined": "two machines use the identity of its node",
  "node fenced": "its node is out of use",
  "node draining": "its node is being emptied",
};

/** Under which leadership steps were decided, and how long what is removed has had since no edge sends anybody there. */
export interface DecidedBy {
  epoch: bigint;
  drainMs: number;
}

/** See `ReplicaRows.carryOut`. */
export async function carryOutInPostgres(
  db: Db,
  { epoch, drainMs }: DecidedBy,
  site: Site,
  steps: readonly ReplicaStep[],
): Promise<boolean> {
  const { deploymentId } = site;
  return await inFencedTransaction(db, epoch, async (tx) => {
    // Whoever holds the site's owner or project for long holds up this site, and the others only for a moment.
    await sql`set local lock_timeout = '1s'`.execute(tx);
    const found = await findDeployment(tx, deploymentId);
    if (found === null) return false;
    const held = await holdToMake(tx, found, { status: "running", channel: "it" });
    if (held === null) return false;
    const { manifest, plan } = held;
    if (!(await isUnchanged(tx, site))) return false;
    const retired = steps.flatMap((step) => (step.do === "retire" ? [step.taskId] : []));
    const removed = steps.flatMap((step) => (step.do === "remove" ? [step.taskId] : []));
    await lockTasks(tx, [...retired, ...removed]);
    if (retired.length > 0) {
      await tx
        .updateTable("task")
        .set({ retiring_at: sql<Date>`now()` })
        .where("id", "in", retired)
        .where("retiring_at", "is", null)
        .execute();
      await notify(tx, routeTopic, found.project.id);
    }
    await removeTasks(tx, removed, { drainSeconds: drainSecondsAfter(drainSecondsIn(manifest, plan), drainMs) });
    for (const step of steps) {
      if (step.do !== "replace") continue;
      const { slot, cause } = step;
      await makeContainers(tx, held, [slot], cause);
      const detail = `Replica ${slot + 1} gets a new container: ${because[cause]}.`;
      await insertEvent(tx, { deploymentId, phase: "replica-replaced", detail });
    }
    return true;
  });
}

/** Whether the site's replicas are those that the decision rests on. */
async function isUnchanged(tx: Db, { deploymentId, running }: Site): Promise<boolean> {
  const rows = await tx
    .selectFrom("task")
    .select(["id", "retiring_at"])
    .where("owner_id", "=", deploymentId)
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .execute();
  const known = new Map(running.map(({ taskId, retiring }) => [taskId, retiring]));
  return rows.length === known.size && rows.every(({ id, retiring_at }) => known.get(id) === (retiring_at !== null));
}
