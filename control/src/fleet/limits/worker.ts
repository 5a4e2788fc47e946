import { sql } from "kysely";
import { holdPlanOfUser } from "../../identity/plans/of-user.ts";
import { reservationOf } from "../../identity/plans/rules.ts";
import type { Log } from "../../log.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { taskTopic } from "../cluster/topics.ts";
import { lockTasks } from "../tasks/change.ts";

export interface ApplyLimitsDeps {
  db: Db;
  log: Log;
}

/**
 * Work of kind `apply-limits`: what the containers of a project are to have is what the owner's plan gives by now. The
 * leader finds the room on their nodes and the agents change what runs; this only says what is wanted, so it may be
 * repeated and come late. Builds and release commands keep what they began with.
 */
export function applyLimitsWorker({ db, log }: ApplyLimitsDeps): WorkHandler {
  return async (item) => {
    const { projectId } = item.payload as { projectId: string };
    const tasks = await db.transaction().execute((tx) => wantPlanLimits(tx, projectId));
    if (tasks > 0) log.info({ projectId, tasks }, "running containers are to get other limits");
    return { state: "done" };
  };
}

/** Returns how many containers are to get other limits than before. */
export async function wantPlanLimits(tx: Db, projectId: string): Promise<number> {
  const project = await tx.selectFrom("project").select("owner_id").where("id", "=", projectId).executeTakeFirst();
  if (project === undefined) return 0;
  const plan = await holdPlanOfUser(tx, project.owner_id);
  const { memory_mb, cpu_millicores, pids_limit, storage_mb } = plan;
  const { reservedMemoryMb: reserved_memory_mb, reservedCpuMillicores: reserved_cpu_millicores } = reservationOf(plan);
  const running = await tx
    .selectFrom("task")
    .select("id")
    .where("project_id", "=", projectId)
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .execute();
  const ids = running.map(({ id }) => id);
  await lockTasks(tx, ids);
  const { numUpdatedRows } = await tx
    .updateTable("task")
    .set({ memory_mb, cpu_millicores, pids_limit, storage_mb, reserved_memory_mb, reserved_cpu_millicores })
    .where("id", "=", sql<string>`any(${ids}::uuid[])`)
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .where(
      sql<boolean>`(memory_mb, cpu_millicores, pids_limit, storage_mb, reserved_memory_mb, reserved_cpu_millicores)
        is distinct from (${memory_mb}, ${cpu_millicores}, ${pids_limit}, ${storage_mb}, ${reserved_memory_mb}, ${reserved_cpu_millicores})`,
    )
    .executeTakeFirst();
  if (numUpdatedRows > 0n) await notify(tx, taskTopic);
  return Number(numUpdatedRows);
}
