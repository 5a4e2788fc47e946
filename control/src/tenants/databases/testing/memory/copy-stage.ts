import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { defaultDatabaseImages } from "@svc/proto";
import { CopySample_State, CopySampleSchema } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import { storeCopySamples } from "../../../../fleet/databases/copy-reports.ts";
import { keeper } from "../../../../fleet/tasks/kinds/keeper.ts";
import type { MemoryTask, Transact } from "../../../../fleet/testing/tables.ts";
import { createLog } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Copy } from "../../../../stores/db/tables.ts";
import { enqueueCopyRound } from "../../copies/rounds.ts";
import { type CopyRows, copyRows } from "../../copies/rows.ts";
import { setCopy } from "./copies.ts";
import { memoryCopyRound, memoryCopyRows, storeCopySample } from "./copy-rows.ts";
import { copyWorkKey, type DatabaseTables } from "./tables.ts";

/** What keeps a copy, as every store tells of it. */
export interface SeenKeeper extends Pick<MemoryTask, "id" | "desired" | "pinnedTo"> {
  databaseId: string;
  sizeMb: number;
}

/** What a test of copies sets up and looks at besides. */
export interface CopyStage {
  copyRows: CopyRows;
  setCopy(copyId: string, change: Partial<Omit<Copy, "bases">>): Promise<void>;
  /** A node tells how far a copy is: that it follows, unless it says something else. */
  tell(nodeId: string, copyId: string, said?: MessageInitShape<typeof CopySampleSchema>): Promise<void>;
  keepers(copyId: string): Promise<SeenKeeper[]>;
  /** The leader looks whether any branch is to be looked at. */
  lookAtCopies(isWanted?: boolean): Promise<void>;
  /** Items of work about the copies of a branch that wait. */
  copyWorks(id: string): Promise<number>;
  /** Whoever works on them is done. */
  endCopyWorks(id: string): Promise<void>;
}

const sampleOf = (copyId: string, said: MessageInitShape<typeof CopySampleSchema> = {}) => {
  const at = systemClock.now().toISOString();
  const bases = [{ number: 1, at: "2026-01-01T00:00:00.000Z", bytes: 1n }];
  return create(CopySampleSchema, {
    ...{ copyId, at, state: CopySample_State.FOLLOWING, coveredAt: at, position: "0/5", bytes: 5n, bases },
    ...said,
  });
};

export const postgresCopies = (db: Db): CopyStage => ({
  copyRows: copyRows(db, defaultDatabaseImages),
  setCopy: async (id, change) =>
    void (await db.updateTable("database_copy").set(change).where("id", "=", id).execute()),
  tell: (nodeId, copyId, said) =>
    storeCopySamples({ db, log: createLog("silent") }, nodeId, [sampleOf(copyId, said)], systemClock.now()),
  async keepers(copyId) {
    const tasks = await db.selectFrom("task").selectAll().where("owner_id", "=", copyId).orderBy("epoch").execute();
    return tasks.map(({ id, desired, pinned_to: pinnedTo, spec }) => {
      const { databaseId, sizeMb } = keeper.spec.parse(spec);
      return { id, desired, pinnedTo, databaseId, sizeMb };
    });
  },
  lookAtCopies: async (isWanted = true) => void (await enqueueCopyRound(db, { isWanted })),
  async copyWorks(id) {
    const items = db.selectFrom("work_item").select("id").where("key", "=", copyWorkKey(id));
    return (await items.where("state", "=", "queued").execute()).length;
  },
  endCopyWorks: async (id) => void (await db.deleteFrom("work_item").where("key", "=", copyWorkKey(id)).execute()),
});

export const memoryCopies = (transact: Transact<DatabaseTables>): CopyStage => ({
  copyRows: memoryCopyRows(transact),
  setCopy: (id, change) =>
    transact((tx) => {
      const copy = tx.tables.branches.copies.get(id);
      if (copy !== undefined) setCopy(tx, { ...copy, ...change });
    }),
  tell: (nodeId, copyId, said) => transact((tx) => storeCopySample(tx, nodeId, sampleOf(copyId, said))),
  keepers: (copyId) =>
    transact(({ tables }) =>
      [...tables.tasks.values()].flatMap(({ id, ownerId, desired, pinnedTo, keeper: spec }) =>
        ownerId !== copyId || spec === null
          ? []
          : [{ id, desired, pinnedTo, databaseId: spec.databaseId, sizeMb: spec.sizeMb }],
      ),
    ),
  lookAtCopies: (isWanted = true) => memoryCopyRound(transact, { isWanted }),
  copyWorks: (id) =>
    transact(
      ({ tables: { work } }) =>
        [...work.items.values()].filter(({ key, lease }) => key === copyWorkKey(id) && lease === null).length,
    ),
  endCopyWorks: (id) =>
    transact(({ tables: { work } }) => {
      for (const item of work.items.values()) if (item.key === copyWorkKey(id)) work.items.delete(item.id);
    }),
});
