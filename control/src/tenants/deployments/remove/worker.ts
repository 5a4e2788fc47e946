import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { haveEdgesLeft, type IsLeft } from "../../../fleet/routes/left.ts";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { findDeployment } from "../../../fleet/tasks/deployment.ts";
import { endRuns } from "../../../fleet/tasks/runs.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment, Task } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { drainedForMs } from "../retire/drained.ts";
import type { Removal } from "./request.ts";

export interface RemoveDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  /** How long requests that are under way may still take once no edge sends new ones. */
  drainMs: number;
  log: Log;
}

/** How long the end of a release command is waited for here; its `retire` work goes on without the row. */
const runEndMs = 60_000;

/**
 * Work of kind `remove`: takes a deployment that is out of its channel off the nodes, and then its rows, logs and
 * keys. Each round does what is possible now and comes back for the rest; the row goes last, so that a round that was
 * cut off is done again.
 */
export function removeWorker(deps: RemoveDeps): WorkHandler {
  const { db, drainMs, log } = deps;
  return async (item) => {
    const { deploymentId, hosts } = item.payload as Removal;
    const found = await findDeployment(db, deploymentId);
    // What is deleted with its project leaves nothing to do here.
    if (found === null || found.project.deleting_at !== null) return { state: "done" };
    const { deployment } = found;
    const again = { retryAfterMs: recheckAfterMs(item.ageMs), refund: true } as const;

    const isLeft: IsLeft = (route) => route?.deploymentId !== deploymentId;
    if (hosts.length > 0 && !(await haveEdgesLeft({ ...deps, edges: () => edgesInRotation(db) }, hosts, isLeft)))
      return again;
    const tasks = await listTasks(db, deploymentId);
    const wanted = tasks.filter((task) => task.desired !== "removed");
    if (wanted.some((task) => task.kind === "serve" && task.node_id !== null)) {
      const leftMs = drainMs - (await drainedForMs(db, item.id));
      if (leftMs > 0) return { retryAfterMs: leftMs, refund: true };
    }
    await removeTasks(
      db,
      tasks.filter((task) => task.reaped_at === null).map(({ id }) => id),
    );
    if (tasks.some((task) => task.reaped_at === null)) return again;
    const runsEnded = await endRuns(deps, (run) => run.ownerId === deploymentId);
    if (!runsEnded && item.ageMs < runEndMs) return again;
    await deleteRows(db, deployment, tasks);
    log.info({ deploymentId, to: "removed" }, "deployment");
    return { state: "done" };
  };
}

async function deleteRows(db: Db, deployment: Deployment, tasks: readonly Task[]): Promise<void> {
  const taskIds = tasks.map(({ id }) => id);
  await db.transaction().execute(async (tx) => {
    // What is written for one of them holds its row: from here on nothing is added to what is deleted below.
    await sql`select from deployment where id = ${deployment.id} for update`.execute(tx);
    await sql`select from task where owner_id = ${deployment.id} order by epoch for update`.execute(tx);
    const runs = await tx
      .selectFrom("run")
      .select("id")
      .where("owner_id", "=", deployment.id)
      .orderBy("id")
      .forUpdate()
      .execute();
    const streams = [...taskIds, ...runs.map(({ id }) => id)];
    await tx.deleteFrom("log_chunk").where("stream_id", "=", sql<string>`any(${streams})`).execute();
    await tx.deleteFrom("resource_sample").where("task_id", "=", sql<string>`any(${taskIds}::uuid[])`).execute();
    await tx.deleteFrom("task").where("owner_id", "=", deployment.id).execute();
    await tx.deleteFrom("run").where("owner_id", "=", deployment.id).execute();
    await tx.deleteFrom("deployment").where("id", "=", deployment.id).execute();
  });
}
