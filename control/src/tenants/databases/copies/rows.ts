import type { DatabaseEngine } from "@svc/proto";
import { type SqlBool, sql } from "kysely";
import { listNodeRows, type NodeRow } from "../../../fleet/scheduler/store.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Copy, Node, Plan, Task } from "../../../stores/db/tables.ts";
import { findOpenChange } from "../changes/store.ts";
import { type BranchRow, findBranchRow, type ServerPlan } from "../facts.ts";
import { releasedMax } from "../sql/requests.ts";
import { lockBranch } from "../store.ts";
import { isFollowing } from "./fresh.ts";
import { keeperOf } from "./keepers.ts";
import { type CopiesStep, retentionHours } from "./steps.ts";
import { beginCopy, endCopy } from "./store.ts";

/** A branch as it was when its copies were looked at. */
export type CopiesAt = Pick<Branch, "id" | "status" | "generation">;

/** A task that keeps a copy, and is not over. */
export interface KeeperRow extends Pick<Task, "id" | "desired" | "node_id" | "spec"> {
  age_ms: number;
}

/** A copy that has not ended. */
export interface OpenCopy extends Copy {
  age_ms: number;
  /** See `CopyFacts`. */
  lacking_ms: number;
  is_fresh: boolean;
  is_let_in: boolean;
  /** Of its node; null: it has none. */
  lifecycle: Node["lifecycle"] | null;
  drain: Node["drain"] | null;
  keepers: readonly KeeperRow[];
}

/** A branch, and what is written down that decides what is next for its copies. */
export interface CopiesRow<P extends ServerPlan = Plan> {
  branch: BranchRow<P>;
  /** The oldest first. */
  copies: readonly OpenCopy[];
  isChanging: boolean;
  /** There are copies as in `listReleasable`. */
  mayHoldLog: boolean;
  /** Machines, which may keep one more. */
  nodes: readonly NodeRow[];
}

type Of<K extends CopiesStep["do"]> = Omit<Extract<CopiesStep, { do: K }>, "do">;

/**
 * What work on copies asks of Postgres. Each change is one transaction that looks again at what it rests on, as long as the branch is of
 * the generation and in the status that it was read with: otherwise it does nothing. Each may be repeated. What says so tells whether it did.
 */
export interface CopyRows {
  /** Null: the branch is no more. */
  find(databaseId: string): Promise<CopiesRow<ServerPlan> | null>;
  /** Unless one of that purpose, or on that node, follows already. */
  begin(of: CopiesAt, step: Of<"begin">): Promise<boolean>;
  /** Unless it has a node by now. */
  place(of: CopiesAt, step: Of<"place">): Promise<void>;
  /** In place of the keeper's copy of then only, and of none that would be missed, or that a change may come out of. */
  promote(of: CopiesAt, step: Of<"promote">): Promise<boolean>;
  end(of: CopiesAt, step: Of<"end">): Promise<boolean>;
  /** Those who keep copies get this password, sealed, unless they have one. */
  setPassword(of: CopiesAt, sealed: Buffer): Promise<void>;
  /** The database's time. */
  now(): Promise<Date>;
  /** The server knows the password of those who keep copies, as was asked of it at that time. */
  letIn(of: CopiesAt, at: Date): Promise<void>;
  /** The copy gets a keeper, unless one is there that is not over: two must never be at one volume. */
  startKeeper(of: CopiesAt, step: Of<"startKeeper">, plan: Pick<Plan, "db_size_mb">): Promise<void>;
  removeKeepers(taskIds: readonly string[]): Promise<void>;
  /** Copies that have ended and that nobody keeps any more, of which the server may not have been told; so many as it is told of at once. */
  listReleasable(of: CopiesAt): Promise<string[]>;
  /** It was told of them. */
  released(copyIds: readonly string[]): Promise<void>;
}

/** @param images what keepers run in: what servers do */
export function copyRows(db: Db, images: Readonly<Record<DatabaseEngine, string>>): CopyRows {
  /** Runs `act` with the branch held, if it is as it was read; false: it is not, or `act` says so. */
  const locked = (
    { id, status, generation }: CopiesAt,
    act: (tx: Db, branch: Branch) => Promise<unknown>,
  ): Promise<boolean> =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, id);
      return branch?.status === status && branch.generation === generation && (await act(tx, branch)) !== false;
    });

  return {
    find: (databaseId) => findCopiesRow(db, databaseId),

    begin: (of, step) => locked(of, (tx, branch) => beginCopy(tx, branch, step)),

    place: async (of, { copyId, nodeId }) =>
      void (await locked(of, (tx) =>
        tx
          .updateTable("database_copy")
          .set({ node_id: nodeId })
          .where("id", "=", copyId)
          .where("node_id", "is", null)
          .execute(),
      )),

    promote: (of, { copyId, insteadOf }) =>
      locked(of, async (tx) => {
        if ((await lockCopy(tx, copyId)) === null) return false;
        const keeper = await tx
          .selectFrom("database_copy")
          .select("id")
          .where("database_id", "=", of.id)
          .where("purpose", "=", "keeper")
          .where("state", "!=", "ended")
          .executeTakeFirst();
        if ((keeper?.id ?? null) !== insteadOf) return false;
        if (insteadOf !== null) {
          const follows = await tx
            .selectFrom("database_copy")
            .select("id")
            .where("id", "=", copyId)
            .where(isFollowing)
            .executeTakeFirst();
          if (follows === undefined || (await findOpenChange(tx, of.id)) !== null) return false;
          await endCopy(tx, insteadOf, { keptHours: retentionHours });
        }
        await tx.updateTable("database_copy").set({ purpose: "keeper" }).where("id", "=", copyId).execute();
      }),

    end: (of, { copyId, purpose }) =>
      locked(of, async (tx) => {
        const copy = await lockCopy(tx, copyId);
        if (copy?.purpose !== purpose) return false;
        // Since it was decided on, it may have become what alone can be restored from.
        await endCopy(tx, copyId, { keptHours: copy.bases.length > 0 ? retentionHours : 0 });
      }),

    setPassword: async (of, sealed) =>
      void (await locked(of, async (tx, { id, keeper_secret }) => {
        if (keeper_secret !== null) return;
        await tx.updateTable("database").set({ keeper_secret: sealed, keeper_at: null }).where("id", "=", id).execute();
      })),

    now: async () => (await db.selectNoFrom(sql<Date>`clock_timestamp()`.as("now")).executeTakeFirstOrThrow()).now,

    letIn: async (of, at) =>
      void (await locked(of, (tx, { id }) =>
        tx.updateTable("database").set({ keeper_at: at }).where("id", "=", id).execute(),
      )),

    startKeeper: async (of, { copyId }, plan) =>
      void (await locked(of, async (tx) => {
        const copy = await lockCopy(tx, copyId);
        if (copy === null || copy.node_id === null) return;
        const before = await tx
          .selectFrom("task")
          .select("id")
          .where("owner_id", "=", copyId)
          .where("kind", "=", "keeper")
          .where("reaped_at", "is", null)
          .limit(1)
          .executeTakeFirst();
        if (before !== undefined) return;
        const task = keeperOf({ ...copy, node_id: copy.node_id }, plan, images[copy.engine]);
        await insertTask(tx, { ...copy, pr_number: null }, task, { replica: 0 });
      })),

    removeKeepers: (taskIds) => removeTasks(db, taskIds),

    listReleasable: async (of) => (await releasable(db, of).limit(releasedMax).execute()).map(({ id }) => id),

    async released(copyIds) {
      if (copyIds.length === 0) return;
      await db
        .updateTable("database_copy")
        .set({ released_at: sql<Date>`clock_timestamp()` })
        .where("id", "in", copyIds)
        .execute();
    },
  };
}

/** The copy, held, if it has not ended. */
const lockCopy = async (tx: Db, id: string): Promise<Copy | null> =>
  (await tx
    .selectFrom("database_copy")
    .selectAll()
    .where("id", "=", id)
    .where("state", "!=", "ended")
    .forUpdate()
    .executeTakeFirst()) ?? null;

/** Those of another volume are in the log of its server; whoever keeps one still could ask for its log again. */
const releasable = (db: Db, { id, generation }: Pick<CopiesAt, "id" | "generation">) =>
  db
    .selectFrom("database_copy")
    .select("id")
    .where("database_id", "=", id)
    .where("generation", "=", generation)
    .where("engine", "=", "postgres")
    .where("state", "=", "ended")
    .where("released_at", "is", null)
    .where(
      sql<SqlBool>`not exists (
        select from task where task.owner_id = database_copy.id and task.kind = 'keeper' and task.reaped_at is null)`,
    );

async function findCopiesRow(db: Db, databaseId: string): Promise<CopiesRow | null> {
  const branch = await findBranchRow(db, databaseId);
  if (branch === null) return null;
  const [copies, nodes, change, held] = await Promise.all([
    listOpenCopies(db, databaseId),
    listNodeRows(db),
    findOpenChange(db, databaseId),
    releasable(db, branch.branch).limit(1).executeTakeFirst(),
  ]);
  const keepers = await listKeepers(
    db,
    copies.map(({ id }) => id),
  );
  return {
    ...{ branch, nodes, isChanging: change !== null, mayHoldLog: held !== undefined },
    copies: copies.map((copy) => ({ ...copy, keepers: keepers.get(copy.id) ?? [] })),
  };
}

/** A server that has come up, or come back, since counts from then: nobody could have followed it before. */
const lackingMs = sql<number>`extract(epoch from clock_timestamp() - greatest(
  database_copy.created_at, database_copy.covered_at, database.status_at,
  (select max(created_at) from task where task.owner_id = database.id and task.kind = 'database')))::float8 * 1000`;

const listOpenCopies = (db: Db, databaseId: string) =>
  db
    .selectFrom("database_copy")
    .innerJoin("database", "database.id", "database_copy.database_id")
    .leftJoin("node", "node.id", "database_copy.node_id")
    .selectAll("database_copy")
    .select([
      "node.lifecycle",
      "node.drain",
      sql<number>`extract(epoch from clock_timestamp() - database_copy.created_at)::float8 * 1000`.as("age_ms"),
      lackingMs.as("lacking_ms"),
      isFollowing.as("is_fresh"),
      // Whatever the server knew before, it was told again since: it may be another one.
      sql<boolean>`coalesce(database.keeper_at >= database_copy.created_at, false)`.as("is_let_in"),
    ])
    .where("database_copy.database_id", "=", databaseId)
    .where("database_copy.state", "!=", "ended")
    .orderBy("database_copy.created_at")
    .execute();

/** By copy. */
async function listKeepers(
  db: Db,
  copyIds: readonly string[],
): Promise<Map<string, (KeeperRow & { owner_id: string })[]>> {
  if (copyIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("task")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - created_at)::float8 * 1000`.as("age_ms"))
    .where("owner_id", "in", copyIds)
    .where("kind", "=", "keeper")
    .where("reaped_at", "is", null)
    .orderBy("epoch")
    .execute();
  return Map.groupBy(rows, ({ owner_id }) => owner_id);
}
