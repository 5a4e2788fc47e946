import type { Db } from "../../../stores/db/pool.ts";
import type { Node } from "../../../stores/db/tables.ts";
import { inTransaction } from "../../../stores/db/transaction.ts";
import { removeTasks } from "../../tasks/change.ts";
import { ownerOf } from "../../tasks/owners/index.ts";
import { insertNodeEvents } from "../events/store.ts";
import type { DrainStep } from "./steps.ts";

/** A machine that is to be empty, or was, and until when. */
export type DrainRow = Pick<Node, "id" | "drain" | "drain_generation" | "drain_deadline">;

/** One drain of a machine: what was decided for an earlier one must not be done. */
export type DrainOf = Pick<DrainStep, "nodeId" | "generation">;

type Of<Kind extends DrainStep["do"]> = Extract<DrainStep, { do: Kind }>;
type State = "draining" | "deadline" | "drained";

/** From where to where a drain goes, and what the history of its machine says of that. */
export interface DrainMove {
  from: readonly State[];
  to: State;
  event: string | null;
}

/**
 * What rounds about machines that are to be empty ask, and tell. What they tell comes to false when the drain is not that one
 * any more, or there is nothing left to do.
 */
export interface DrainRows {
  /** Nodes that are to be empty, or are. */
  nodes(): Promise<DrainRow[]>;
  /** Edges that are to be empty. */
  edges(): Promise<DrainRow[]>;
  move(of: DrainOf, move: DrainMove): Promise<boolean>;
  /** Takes away a task whose owner begins it anew, and tells that why. */
  redo(step: Of<"redo">, why: string): Promise<boolean>;
  /** Has a replaced container end now. */
  endDrain(step: Of<"endDrain">): Promise<boolean>;
  /** Whether an attempt is to be ended; its owner is told once that one that may have started is. */
  noteEnd(step: Of<"endRun">, why: string): Promise<boolean>;
}

export const drainRows = (db: Db): DrainRows => ({
  nodes: () => listDrains(db, "node", ["draining", "deadline", "drained"]),
  edges: () => listDrains(db, "edge", ["draining"]),
  move: (of, move) => moveDrain(db, of, move),
  redo: (step, why) => redoTask(db, step, why),
  endDrain: (step) => endDrain(db, step),
  noteEnd: (step, why) => noteEnd(db, step, why),
});

const listDrains = (db: Db, role: Node["role"], states: readonly State[]): Promise<DrainRow[]> =>
  db
    .selectFrom("node")
    .select(["id", "drain", "drain_generation", "drain_deadline"])
    .where("drain", "in", [...states])
    .where("role", "=", role)
    .where("lifecycle", "=", "active")
    .execute();

const moveDrain = (db: Db, { nodeId, generation }: DrainOf, move: DrainMove): Promise<boolean> =>
  inTransaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable("node")
      .set({ drain: move.to })
      .where("id", "=", nodeId)
      .where("lifecycle", "=", "active")
      .where("drain", "in", [...move.from])
      .where("drain_generation", "=", generation)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    if (move.event !== null) await insertNodeEvents(tx, [{ nodeId, kind: move.event }]);
    return true;
  });

/** Keeps the drain from being cancelled until the transaction ends; false when it is not that one any more. */
async function holdDrain(tx: Db, { nodeId, generation }: DrainOf): Promise<boolean> {
  const row = await tx
    .selectFrom("node")
    .select("id")
    .where("id", "=", nodeId)
    .where("drain", "!=", "none")
    .where("drain_generation", "=", generation)
    .forShare()
    .executeTakeFirst();
  return row !== undefined;
}

function redoTask(db: Db, step: Of<"redo">, why: string): Promise<boolean> {
  const { taskId, ownerId } = step;
  const owner = ownerOf(step.ownerKind);
  return inTransaction(db, async (tx) => {
    if (!(await owner.lockForRedo(tx, ownerId)) || !(await holdDrain(tx, step))) return false;
    const task = await tx.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst();
    if (task?.desired !== "running") return false;
    await removeTasks(tx, [taskId]);
    await owner.addLine(tx, ownerId, { phase: "task-abandoned", detail: why });
    return true;
  });
}

function endDrain(db: Db, step: Of<"endDrain">): Promise<boolean> {
  const { taskId } = step;
  return inTransaction(db, async (tx) => {
    if (!(await holdDrain(tx, step))) return false;
    const task = await tx.selectFrom("task").select("drain_seconds").where("id", "=", taskId).executeTakeFirst();
    // The view is a moment behind.
    if (task === undefined || task.drain_seconds === 0) return false;
    await removeTasks(tx, [taskId]);
    return true;
  });
}

function noteEnd(db: Db, step: Of<"endRun">, why: string): Promise<boolean> {
  const { ownerId, claimed } = step;
  const owner = ownerOf(step.ownerKind);
  const line = { phase: `${step.kind}-ended`, detail: why };
  return inTransaction(db, async (tx) => {
    const isNew = claimed && (await owner.isNewLine(tx, ownerId, line.phase));
    if (!(await holdDrain(tx, step))) return false;
    if (isNew) await owner.addLine(tx, ownerId, line);
    return true;
  });
}
