import type { OwnerKind } from "@svc/proto/kinds";
import type { Db } from "../../../stores/db/pool.ts";
import { inTransaction } from "../../../stores/db/transaction.ts";
import { removeTasks } from "../../tasks/change.ts";
import { ownerOf } from "../../tasks/owners/index.ts";
import type { Line } from "../../tasks/owners/owner.ts";

/** What rounds about machines that are lost ask, and tell. */
export interface LostRows {
  /** Machines that were fenced or removed. */
  gone(): Promise<string[]>;
  /** Has tasks forgotten that were only to stop. */
  forgetStopped(taskIds: readonly string[]): Promise<void>;
  /** Adds a line to the timeline of an owner that waits for a run, unless it has one of that phase. */
  tellOnce(of: { ownerKind: OwnerKind; ownerId: string }, line: Line): Promise<void>;
}

export const lostRows = (db: Db): LostRows => ({
  async gone() {
    const rows = await db.selectFrom("node").select("id").where("lifecycle", "!=", "active").execute();
    return rows.map(({ id }) => id);
  },
  async forgetStopped(taskIds) {
    const rows = await db
      .selectFrom("task")
      .select("id")
      .where("id", "in", [...taskIds])
      .where("desired", "=", "stopped")
      .execute();
    await removeTasks(
      db,
      rows.map(({ id }) => id),
    );
  },
  async tellOnce({ ownerKind, ownerId }, line) {
    const owner = ownerOf(ownerKind);
    // Asked first and without a lock, as the same ones wait in every round.
    if (await owner.hasLine(db, ownerId, line.phase)) return;
    await inTransaction(db, async (tx) => {
      if (await owner.isNewLine(tx, ownerId, line.phase)) await owner.addLine(tx, ownerId, line);
    });
  },
});
