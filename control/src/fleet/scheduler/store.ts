import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";
import { removeTasks } from "../tasks/change.ts";
import { ownerOf } from "../tasks/owners/index.ts";
import { listOpenTasks, type OpenTask } from "../tasks/store.ts";
import { type Mirrored, mirrorInPostgres } from "./mirror.ts";
import type { SchedulerStep } from "./steps.ts";

export type Reasons = Readonly<Record<string, number>>;

/** All of a thousand nodes are read in every round: what nobody asks for takes as long as what they do. */
const nodeColumns = [
  "id",
  "name",
  "drain",
  "schedulable",
  "quarantined_at",
  "disk_full",
  "memory_short",
  "engine_stalled",
  "dockerfile_problem",
  "labels",
  "operator_labels",
  "capacity",
  "platform",
] as const satisfies readonly (keyof Node)[];

/** A machine as operators and its last hello have it. */
export type NodeRow = Pick<Node, (typeof nodeColumns)[number]>;

/** A task that keeps limits which its plan does not give it any more, or not yet. */
export type Kept = Pick<Extract<SchedulerStep, { do: "keep" }>, "taskId" | "ownerKind" | "ownerId" | "reason">;

/** What rounds of the scheduler ask, and tell. */
export interface SchedulerRows {
  /** Every node that joined and is not fenced or removed, by id. */
  nodes(): Promise<NodeRow[]>;
  /** Machines that were fenced or removed. */
  goneNodes(): Promise<string[]>;
  /** Tasks that are not over, in the order of their epochs. */
  openTasks(): Promise<OpenTask[]>;
  /** Takes down what is in etcd now, all or none. @throws LeaderOutdated when another leader is at work */
  mirror(epoch: bigint, mirrored: Mirrored): Promise<void>;
  /** Takes down why tasks wait. Rows that say so already stay as they are. */
  refuse(taskIds: readonly string[], reasons: Reasons): Promise<void>;
  /** Takes down why a task keeps what it has, and tells its owner when that is news. */
  keep(kept: Kept): Promise<void>;
  /** Has replaced containers end now. */
  endDrains(taskIds: readonly string[]): Promise<void>;
}

export const schedulerRows = (db: Db): SchedulerRows => ({
  nodes: () => listNodeRows(db),
  async goneNodes() {
    const gone = await db.selectFrom("node").select("id").where("lifecycle", "!=", "active").execute();
    return gone.map(({ id }) => id);
  },
  openTasks: () => listOpenTasks(db),
  mirror: (epoch, mirrored) => mirrorInPostgres(db, epoch, mirrored),
  async refuse(taskIds, reasons) {
    await record(db, taskIds, reasons);
  },
  keep: (kept) => recordKept(db, kept),
  endDrains: (taskIds) => removeTasks(db, taskIds),
});

/** See `SchedulerRows.nodes`. */
export const listNodeRows = (db: Db): Promise<NodeRow[]> =>
  db
    .selectFrom("node")
    .select(nodeColumns)
    .where("role", "=", "node")
    .where("lifecycle", "=", "active")
    .orderBy("id")
    .execute();

const recordKept = (db: Db, { taskId, ownerKind, ownerId, reason }: Kept) =>
  db.transaction().execute(async (tx) => {
    const owner = ownerOf(ownerKind);
    const isThere = await owner.hold(tx, ownerId);
    if ((await record(tx, [taskId], { [reason]: 1 })) === 0 || !isThere) return;
    await owner.addLine(tx, ownerId, keptLine(reason));
  });

/** What the timeline says of limits that do not change. */
export const keptLine = (reason: string) => ({
  phase: "limits-kept",
  detail: `The plan's limits do not reach a running container: ${reason}. It keeps those that it has, until that changes or the next deployment.`,
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
