import { limits } from "@svc/proto";
import { type ExpressionBuilder, sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Database, Screenshot } from "../../../stores/db/tables.ts";
import { enqueue } from "../../../stores/work/queue.ts";

export const screenshotWork = "screenshot";

/** Of one owner's at once: pages that take long, or many that were asked for, hold up nobody else's. */
export const perOwnerMax = 4;

const now = sql<Date>`clock_timestamp()`;

/** Whether a deployment is what visitors of production or a preview see. */
export const isLive = (where: ExpressionBuilder<Database, "deployment" | "project">) =>
  where.and([
    where("deployment.status", "=", "running"),
    where("deployment.channel", "in", ["production", "preview"]),
    where("project.deleting_at", "is", null),
    where("project.suspended_at", "is", null),
    where.exists(
      where
        .selectFrom("channel_state")
        .select("channel_state.deployment_id")
        .whereRef("channel_state.deployment_id", "=", "deployment.id")
        .where("channel_state.stopped", "=", false),
    ),
  ]);

/** What there is of a deployment; null: nobody has asked for it yet. */
export const findScreenshot = async (db: Db, deploymentId: string): Promise<Screenshot | null> =>
  (await db.selectFrom("screenshot").selectAll().where("deployment_id", "=", deploymentId).executeTakeFirst()) ?? null;

/**
 * Asks for a capture, with the work that brings it about. 0, or for how many seconds another one may not be asked for: whoever
 * asked, and whatever came of it.
 */
export async function askForCapture(
  tx: Db,
  { id: deploymentId, project_id }: { id: string; project_id: string },
): Promise<number> {
  const cooldown = sql`${limits.screenshotCooldownSeconds} * interval '1 second'`;
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto("screenshot")
    .values({ deployment_id: deploymentId, project_id, asked_at: now })
    .onConflict((conflict) =>
      conflict
        .column("deployment_id")
        .doUpdateSet({ asked_at: now, pending: true, failures: 0, error: null })
        .where(sql<boolean>`screenshot.asked_at <= clock_timestamp() - ${cooldown}`),
    )
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows === 1n) {
    await enqueue(tx, { kind: screenshotWork, key: `${screenshotWork}/${deploymentId}`, payload: { deploymentId } });
    return 0;
  }
  const { left } = await tx
    .selectFrom("screenshot")
    .select(sql<number>`ceil(extract(epoch from asked_at + ${cooldown} - clock_timestamp()))::float8`.as("left"))
    .where("deployment_id", "=", deploymentId)
    .executeTakeFirstOrThrow();
  return Math.max(1, left);
}

/** It, held until the transaction ends, if a capture is still asked for; null when none is. Before its tasks. */
export async function lockPending(tx: Db, id: string): Promise<Screenshot | null> {
  const row = await tx
    .selectFrom("screenshot")
    .selectAll()
    .where("id", "=", id)
    .where("pending", "=", true)
    .forUpdate()
    .executeTakeFirst();
  return row ?? null;
}

export const setCaptured = (tx: Db, id: string, file: { repository: string; digest: string; sizeBytes: number }) =>
  tx
    .updateTable("screenshot")
    .set({ pending: false, failures: 0, error: null, captured_at: now })
    .set({ repository: file.repository, digest: file.digest, size_bytes: file.sizeBytes })
    .where("id", "=", id)
    .execute();

export const countFailure = (tx: Db, id: string, error: string) =>
  tx
    .updateTable("screenshot")
    .set((of) => ({ failures: of("failures", "+", 1), error }))
    .where("id", "=", id)
    .execute();

/** What its last try came to is more than that there were too many. */
export const giveUp = (tx: Db, id: string, reason: string) =>
  tx
    .updateTable("screenshot")
    .set({ pending: false, error: sql<string>`coalesce(error, ${reason})` })
    .where("id", "=", id)
    .execute();
