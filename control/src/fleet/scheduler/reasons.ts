import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { ownerOf } from "../tasks/owners/index.ts";
import type { SchedulerStep } from "./steps.ts";

type Reasons = Readonly<Record<string, number>>;

/** The same text for the same reasons, whatever their order. */
const canonical = (reasons: Reasons): string => JSON.stringify(Object.entries(reasons).sort());

/** One statement changes so many rows at most, so that nobody waits long for one of them. */
const rowsMax = 1_000;

/**
 * Writes why tasks wait, or keep what they have, where it is not what Postgres says already (`known`). Tasks that wait
 * for the same reason are written together.
 */
export async function recordReasons(
  db: Db,
  steps: readonly SchedulerStep[],
  known: ReadonlyMap<string, Reasons>,
): Promise<void> {
  const isNews = (taskId: string, reasons: Reasons): boolean => {
    const before = known.get(taskId);
    return before === undefined || canonical(before) !== canonical(reasons);
  };
  const refused = new Map<string, { reasons: Reasons; taskIds: string[] }>();
  for (const step of steps) {
    if (step.do === "refuse" && isNews(step.taskId, step.refused)) {
      const key = canonical(step.refused);
      const group = refused.get(key) ?? { reasons: step.refused, taskIds: [] };
      refused.set(key, group);
      group.taskIds.push(step.taskId);
    }
    if (step.do === "keep" && isNews(step.taskId, { [step.reason]: 1 })) await recordKept(db, step);
  }
  for (const { reasons, taskIds } of refused.values()) {
    for (let at = 0; at < taskIds.length; at += rowsMax) await record(db, taskIds.slice(at, at + rowsMax), reasons);
  }
}

/** Says so on the timeline as well. */
const recordKept = (db: Db, { taskId, ownerKind, ownerId, reason }: Extract<SchedulerStep, { do: "keep" }>) =>
  db.transaction().execute(async (tx) => {
    const owner = ownerOf(ownerKind);
    const isThere = await owner.hold(tx, ownerId);
    if ((await record(tx, [taskId], { [reason]: 1 })) === 0 || !isThere) return;
    const detail = `The plan's limits do not reach a running container: ${reason}. It keeps those that it has, until that changes or the next deployment.`;
    await owner.addLine(tx, ownerId, { phase: "limits-kept", detail });
  });

/** How many rows had another reason, or none. Rows are locked in the order in which everybody locks tasks. */
async function record(db: Db, taskIds: readonly string[], reasons: Reasons): Promise<number> {
  const refused = JSON.stringify(reasons);
  const { numAffectedRows } = await sql`
    update task set refused = ${refused}::jsonb
    from (
      select id from task where id = any(${taskIds}::uuid[]) and refused is distinct from ${refused}::jsonb
      order by epoch for no key update) as changed
    where task.id = changed.id`.execute(db);
  return Number(numAffectedRows ?? 0);
}
