import { type RawBuilder, sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { workTopic } from "../../stores/work/queue.ts";
import { planOfOwner } from "./of-user.ts";

/** Whose containers a change concerns: those of one user, or of everybody who has a plan. */
export type Concerned = { userId: string } | { planId: string };

/** Work of this kind brings the limits of the owner's plan to the project's running containers. */
export const applyLimitsKind = "apply-limits";

/**
 * Queues `apply-limits` for every project concerned of which something runs, in the transaction that changes the plan
 * and has it locked as `holdPlanOfUser` says. So whoever makes containers by the plan as it was has been waited for, and
 * an item that waits in the queue will read the plan as it will be: another one is not needed.
 */
export async function enqueueApplyLimits(tx: Db, concerned: Concerned): Promise<void> {
  await enqueueWhere(tx, isConcerned(concerned));
}

/** Whether the owner of a `project`, joined with its `account` if there is one, is concerned. */
export const isConcerned = (concerned: Concerned): RawBuilder<boolean> =>
  "userId" in concerned
    ? sql<boolean>`project.owner_id = ${concerned.userId}`
    : sql<boolean>`${planOfOwner} = ${concerned.planId}`;

/**
 * Queues `apply-limits` for projects with containers of before what they write was bounded, although the plan bounds it,
 * or of before less was set aside for them than they may take: a replica of such a version goes on making them until it is
 * replaced. Returns for how many.
 */
export const enqueueOutdated = (db: Db): Promise<number> =>
  enqueueWhere(
    db,
    sql<boolean>`exists (select from task where project_id = project.id and ${isRunning} and (
      reserved_memory_mb is null or
      storage_mb = 0 and (select storage_mb from plan where id = ${planOfOwner}) > 0))`,
  );

const isRunning = sql<boolean>`kind = 'serve' and desired = 'running' and reaped_at is null`;

async function enqueueWhere(db: Db, which: RawBuilder<boolean>): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    insert into work_item (kind, key, payload)
    select ${applyLimitsKind}, 'limits/' || project.id, jsonb_build_object('projectId', project.id)
    from project left join account on account.user_id = project.owner_id
    where project.deleting_at is null
      and exists (select from task where project_id = project.id and ${isRunning})
      and not exists (select from work_item where key = 'limits/' || project.id and state = 'queued')
      and ${which}
    order by project.id`.execute(db);
  if (numAffectedRows > 0n) await sql`select pg_notify(${workTopic}, ${applyLimitsKind})`.execute(db);
  return Number(numAffectedRows);
}
