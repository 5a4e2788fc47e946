import { sql } from "kysely";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import { taskTopic } from "../cluster/topics.ts";

/**
 * Holds tasks until the transaction ends. Whoever changes several in one transaction takes them by this first: in one
 * order, so that nobody waits for somebody who waits for them. After their deployments, if those are needed, too.
 */
export async function lockTasks(tx: Db, taskIds: readonly string[]): Promise<void> {
  if (taskIds.length === 0) return;
  await tx
    .selectFrom("task")
    .select("id")
    .where("id", "=", sql<string>`any(${[...taskIds]}::uuid[])`)
    .orderBy("epoch")
    .forNoKeyUpdate()
    .execute();
}

/**
 * Asks for tasks to be ended and removed; the leader and the agent do it. Their containers may serve what is open for
 * `drainSeconds`, and for less if that was said before.
 */
export async function removeTasks(
  db: Db,
  taskIds: readonly string[],
  { drainSeconds = 0 }: { drainSeconds?: number } = {},
): Promise<void> {
  if (taskIds.length === 0) return;
  await inTransaction(db, async (tx) => {
    await lockTasks(tx, taskIds);
    await tx
      .updateTable("task")
      .set({ desired: "removed", drain_seconds: drainSeconds })
      .where("id", "in", [...taskIds])
      .where((where) => where.or([where("desired", "!=", "removed"), where("drain_seconds", ">", drainSeconds)]))
      .execute();
    await notify(tx, taskTopic);
  });
}

/** Containers of projects, or of one channel of theirs, that were replaced and serve what is open. */
export const listDraining = (
  db: Db,
  { projectIds, channel }: { projectIds: readonly string[]; channel?: Pick<Deployment, "channel" | "pr_number"> },
): Promise<{ id: string }[]> =>
  db
    .selectFrom("task")
    .select("id")
    .where("project_id", "in", projectIds)
    .$if(channel !== undefined, (query) =>
      query.where("channel", "=", channel?.channel ?? "production").where("pr_number", "=", channel?.pr_number ?? 0),
    )
    .where("desired", "=", "removed")
    .where("drain_seconds", ">", 0)
    .where("reaped_at", "is", null)
    .execute();

/** Has them asked to end now. */
export async function endDrains(db: Db, of: Parameters<typeof listDraining>[1]): Promise<void> {
  const draining = await listDraining(db, of);
  await removeTasks(
    db,
    draining.map(({ id }) => id),
  );
}

/** Ends tasks and keeps what they hold, their ports above all: a task never runs again. */
export async function stopTasks(db: Db, taskIds: readonly string[]): Promise<void> {
  if (taskIds.length === 0) return;
  await inTransaction(db, async (tx) => {
    await lockTasks(tx, taskIds);
    await tx
      .updateTable("task")
      .set({ desired: "stopped" })
      .where("id", "in", [...taskIds])
      .where("desired", "=", "running")
      .execute();
    await notify(tx, taskTopic);
  });
}
