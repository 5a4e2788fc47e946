import { randomUUID } from "node:crypto";
import { defaultDatabaseImages } from "@svc/proto";
import { sql } from "kysely";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Branch, Change, Copy } from "../../../../stores/db/tables.ts";
import * as backupStore from "../../backups/store.ts";
import { beginMove } from "../../changes/move.ts";
import { beginRestore } from "../../changes/restore.ts";
import { type ChangeRows, changeRows } from "../../changes/rows.ts";
import { getOpenChange, insertChange, lockChange, setCancelled, wakeChange, workKey } from "../../changes/store.ts";
import { lockBranch } from "../../store.ts";
import { insertBackup } from "./backup-requests.ts";
import { requestCancel, requestMove, requestRestore, requestUpgrade } from "./change-requests.ts";
import { memoryChangeRows } from "./change-rows.ts";
import type { DatabaseTables, Tx } from "./tables.ts";

/** What a test of changes sets up and looks at besides. */
export interface ChangeStage {
  changes: ChangeRows;
  /** Each asks for a change of the branch, and gives that. Throws what is refused. */
  move(id: string, to: string | null): Promise<Change>;
  restore(id: string): Promise<Change>;
  upgrade(id: string, image: string): Promise<Change>;
  cancel(id: string): Promise<void>;
  change(changeId: string): Promise<Change | null>;
  /** Items of work about it that wait. */
  changeWorks(changeId: string): Promise<number>;
  copies(id: string): Promise<Copy[]>;
  /** Somebody asks for a backup of it. */
  backUp(id: string): Promise<void>;
  /** Its node has told of a copy, a moment ago. */
  follow(copyId: string, told: Pick<Copy, "node_id" | "position">): Promise<void>;
}

const bases = [{ number: 1, at: "2026-01-01T00:00:00.000Z", bytes: 1 }];

export function postgresChanges(db: Db): ChangeStage {
  const locked = <T>(id: string, work: (tx: Db, branch: Branch) => Promise<T>): Promise<T> =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, id);
      if (branch === null) throw new Error("there is no such branch");
      return work(tx, branch);
    });
  const asked = () => ({ id: randomUUID(), requestedBy: "operator" });
  return {
    changes: changeRows(db, defaultDatabaseImages),
    move: (id, to) => locked(id, (tx, branch) => beginMove(tx, branch, { ...asked(), to })),
    restore: (id) => locked(id, (tx, branch) => beginRestore(tx, branch, { ...asked(), confirm: true })),
    upgrade: (id, image) =>
      locked(id, async (tx, branch) => {
        await insertChange(tx, branch, {
          ...{ id: randomUUID(), kind: "upgrade", state: "stopping", requested_by: "svc", image },
          ...{ copy_id: null, until: null, to_node: null, covered_at: null },
        });
        return getOpenChange(tx, id);
      }),
    cancel: (id) =>
      locked(id, async (tx) => {
        const open = await getOpenChange(tx, id);
        if ((await lockChange(tx, open.id, open.state)) === null) throw new Error("it is somewhere else by now");
        await setCancelled(tx, open.id);
        await wakeChange(tx, open.id);
      }),
    backUp: (id) =>
      locked(
        id,
        async (tx, { project_id: projectId, channel, engine }) =>
          void (await backupStore.insertBackup(tx, { id: randomUUID(), projectId, databaseId: id, channel, engine })),
      ),
    change: async (id) =>
      (await db.selectFrom("database_change").selectAll().where("id", "=", id).executeTakeFirst()) ?? null,
    async changeWorks(id) {
      const items = db.selectFrom("work_item").select("id").where("key", "=", workKey(id));
      return (await items.where("state", "=", "queued").execute()).length;
    },
    copies: (id) =>
      db.selectFrom("database_copy").selectAll().where("database_id", "=", id).orderBy("created_at").execute(),
    follow: async (id, told) =>
      void (await db
        .updateTable("database_copy")
        .set({ ...told, state: "following", covered_at: sql<Date>`now()`, bases: JSON.stringify(bases) })
        .where("id", "=", id)
        .execute()),
  };
}

export function memoryChanges(transact: Transact<DatabaseTables>): ChangeStage {
  const ask = (id: string, request: (tx: Tx, branch: Branch) => Change | null): Promise<Change> =>
    transact((tx) => {
      const branch = tx.tables.branches.rows.get(id);
      const change = branch === undefined ? null : (request(tx, branch) ?? tx.tables.branches.openChange(id));
      if (change === null) throw new Error("there is no such branch");
      return change;
    });
  return {
    changes: memoryChangeRows(transact),
    move: (id, to) => ask(id, (tx, branch) => requestMove(tx, branch, to)),
    restore: (id) => ask(id, requestRestore),
    upgrade: (id, image) => ask(id, (tx, branch) => requestUpgrade(tx, branch, image)),
    cancel: async (id) =>
      void (await ask(id, (tx, branch) => {
        requestCancel(tx, branch);
        return null;
      })),
    backUp: (id) =>
      transact((tx) => {
        const branch = tx.tables.branches.rows.get(id);
        if (branch === undefined) throw new Error("there is no such branch");
        const { project_id, channel, engine } = branch;
        insertBackup(tx, { id: randomUUID(), project_id, database_id: id, channel, engine });
      }),
    change: (id) => transact(({ tables }) => tables.branches.changes.get(id) ?? null),
    changeWorks: (id) =>
      transact(
        ({ tables }) =>
          [...tables.work.items.values()].filter(({ key, lease }) => key === workKey(id) && lease === null).length,
      ),
    copies: (id) =>
      transact(({ tables }) => [...tables.branches.copies.values()].filter(({ database_id }) => database_id === id)),
    follow: (id, told) =>
      transact(({ tables: { branches }, now }) => {
        const copy = branches.copies.get(id);
        if (copy !== undefined)
          branches.copies.set(id, { ...copy, ...told, state: "following", covered_at: now, bases });
      }),
  };
}
