import type { Db } from "../db/pool.ts";
import { enqueue } from "../work/queue.ts";

/** Whose containers a change concerns: those of one user, or of everybody who has a plan. */
export type Concerned = { userId: string } | { planId: string };

/** Work of this kind brings the limits of the owner's plan to the project's running containers. */
export const applyLimitsKind = "apply-limits";

/** Queues `apply-limits` for every project concerned, in the transaction that changes the plan. */
export async function enqueueApplyLimits(tx: Db, concerned: Concerned): Promise<void> {
  const projects = await tx
    .selectFrom("project")
    .leftJoin("account", "account.user_id", "project.owner_id")
    .select("project.id")
    .where("project.deleting_at", "is", null)
    .where((where) =>
      "userId" in concerned
        ? where("project.owner_id", "=", concerned.userId)
        : where(
            where.fn.coalesce(
              "account.plan_id",
              where.selectFrom("plan").select("plan.id").where("plan.is_default", "=", true),
            ),
            "=",
            concerned.planId,
          ),
    )
    .orderBy("project.id")
    .execute();
  for (const { id } of projects) {
    await enqueue(tx, { kind: applyLimitsKind, key: `limits/${id}`, payload: { projectId: id } });
  }
}
