import type { DatabaseEngine } from "@svc/proto";
import { sql } from "kysely";
import { enqueueCopies } from "../../../fleet/databases/checks.ts";
import { listNodeRows, type NodeRow } from "../../../fleet/scheduler/store.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { listWantedTasks } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change, Copy, Plan } from "../../../stores/db/tables.ts";
import { isBackingUp } from "../backups/store.ts";
import { beginCopy, endCopies, endCopy, keepCopies } from "../copies/store.ts";
import { type BranchRow, findBranchRow, isNodeGone, type ServerPlan } from "../facts.ts";
import { holdPlanOfBranch, startServer } from "../servers.ts";
import { doubted, hasNoServer, lockBranch, moveBranch, wakeBranch } from "../store.ts";
import { isSameTenant, type TenantRows, tenantRows } from "../tenant-rows.ts";
import { findOwnVolume, keepVolumes } from "../volumes/store.ts";
import { copyHours, volumeHours } from "./kept.ts";
import { endChange, lockChange, moveChange, setUndoing, takeVolume } from "./store.ts";
import { imagesOf, losesVolume, mayFreeze, maySwitch, restoreOf } from "./switch.ts";

/** A change where it was when it was read. The state alone does not say so: a change comes to it again with each try. */
export type ChangeAt = Pick<Change, "id" | "database_id" | "state" | "freezes">;

/** A change, and what is written down that decides its next step. */
export interface ChangeRow<P extends ServerPlan = Plan> {
  change: Change;
  /** For how long it has had its state, and since when its tenant was kept out last, or let in; null: never. */
  sinceMs: number;
  frozenMs: number | null;
  tenantMs: number | null;
  /** Null: it is no more. */
  branch: BranchRow<P> | null;
  /** Null: it has none, or that is gone. */
  copy: { copy: Copy; behindMs: number | null; nodeGone: boolean } | null;
  /** The volume that it goes back to cannot be had any more. */
  volumeLost: boolean;
  backingUp: boolean;
  /** Machines, where it is to be known whether one takes the server. */
  nodes: readonly NodeRow[];
}

/** Where the log of a server was once nobody could write to it any more. */
export interface Frozen {
  position: string;
  /** The copy has everything until there. */
  isCopied: boolean;
}

/**
 * What work on changes asks of Postgres. Each change of rows is one transaction, which holds the branch and does something only while
 * the change is where it was; each may be repeated. What says so tells whether it did.
 */
export interface ChangeRows extends TenantRows {
  /** Null: it is no more. */
  find(id: string): Promise<ChangeRow<ServerPlan> | null>;
  beginCopy(of: ChangeAt): Promise<void>;
  /** From now on the tenant is to be kept out. */
  beginFreeze(of: ChangeAt): Promise<boolean>;
  /**
   * Where the log was; null: nobody knows. The tenant may be kept out by what came too late, and is then to be let in again. Gives the
   * state that it is in now; null: it was not moved.
   */
  frozen(of: ChangeAt, frozen: Frozen | null): Promise<"stopping" | "draining" | null>;
  /** The copy has everything: servers are to end. */
  stop(of: ChangeAt): Promise<boolean>;
  /** Why the tenant is to be let in again, from before anybody lets it in. */
  undo(of: ChangeAt, reason: string): Promise<void>;
  /** `isOpen`: the tenant is in. Whoever brings the branch up lets it in otherwise. */
  settle(of: ChangeAt, how: { to: "copying" | "failed"; reason: string }, isOpen: boolean): Promise<boolean>;
  removeServers(of: ChangeAt, taskIds: readonly string[]): Promise<void>;
  /** The branch has its next volume, or image, and a server of that; its generation then. Null: it is where it was. */
  switchOver(of: ChangeAt): Promise<number | null>;
  /** One more server over what it has by now, unless one is there that is not over. */
  startServer(of: ChangeAt): Promise<void>;
  /** Whoever has the password of `read` was let in: the change is done. */
  proven(of: ChangeAt, read: Branch): Promise<boolean>;
  /** Its own password is refused: whatever was made there is made again. */
  refused(of: ChangeAt): Promise<void>;
  fail(of: ChangeAt, reason: string): Promise<boolean>;
}

/** @param images what new servers run in */
export function changeRows(db: Db, images: Readonly<Record<DatabaseEngine, string>>): ChangeRows {
  /** Runs `act` with branch and change held, if the change is still where it was, which comes to false otherwise. */
  const held = (
    { id, database_id, state, freezes }: ChangeAt,
    act: (tx: Db, change: Change, branch: Branch | null) => Promise<unknown>,
  ): Promise<boolean> =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, database_id);
      const change = await lockChange(tx, id, state);
      return change?.freezes === freezes && (await act(tx, change, branch)) !== false;
    });

  /** The same with the plan of its owner; null without a branch. */
  const heldWithPlan = <T>(
    { id, database_id, state, freezes }: ChangeAt,
    act: (tx: Db, change: Change, branch: Branch, plan: Plan) => Promise<T>,
  ): Promise<T | null> =>
    db.transaction().execute(async (tx) => {
      const plan = await holdPlanOfBranch(tx, database_id);
      if (plan === null) return null;
      const branch = await lockBranch(tx, database_id);
      const change = branch && (await lockChange(tx, id, state));
      return branch && change?.freezes === freezes ? act(tx, change, branch, plan) : null;
    });

  return {
    ...tenantRows(db),
    find: (id) => findChangeRow(db, id),

    beginCopy: async (of) =>
      void (await held(of, async (tx, { id, to_node }, branch) => {
        if (branch === null) return;
        const copy_id = await beginCopy(tx, branch, { purpose: "move", nodeId: to_node });
        await tx.updateTable("database_change").set({ copy_id }).where("id", "=", id).execute();
        await enqueueCopies(tx, [branch.id]);
      })),

    beginFreeze: (of) =>
      held(of, async (tx, change, branch) => {
        if (branch === null || !mayFreeze(change, branch) || (await isBackingUp(tx, branch.id))) return false;
        const freezes = sql<number>`freezes + 1`;
        return moveChange(tx, change.id, "freezing", { freezes, frozen_at: sql<Date>`clock_timestamp()` });
      }),

    async frozen(of, frozen) {
      const to = frozen?.isCopied === true ? "stopping" : "draining";
      let isMoved = false;
      const isSame = await held(of, async (tx, { id, undoing }, branch) => {
        if (undoing !== null && branch !== null) await setDoubted(tx, branch.id);
        if (undoing !== null || frozen === null) return;
        await moveChange(tx, id, to, { frozen_position: frozen.position });
        if (to === "stopping") await removeServers(tx, of.database_id);
        isMoved = true;
      });
      if (!isSame)
        await db.transaction().execute(async (tx) => {
          const now = await lockBranch(tx, of.database_id);
          if (now === null) return;
          await setDoubted(tx, now.id);
          await wakeBranch(tx, now.id);
        });
      return isMoved ? to : null;
    },

    stop: (of) =>
      held(of, async (tx, { id, undoing, database_id }) => {
        // Whoever lets the tenant in again has noted it before.
        if (undoing !== null) return false;
        await moveChange(tx, id, "stopping");
        return removeServers(tx, database_id);
      }),

    undo: async (of, reason) => void (await held(of, (tx, { id }) => setUndoing(tx, id, reason))),

    settle: (of, { to, reason }, isOpen) =>
      held(of, async (tx, change, branch) => {
        if (branch !== null && !isOpen) await setDoubted(tx, branch.id);
        if (to === "failed") return giveUp(tx, change, reason);
        await moveChange(tx, change.id, "copying", { undoing: null, frozen_position: null, frozen_at: null });
        await wakeBranch(tx, change.database_id);
      }),

    removeServers: async (of, taskIds) => void (await held(of, (tx) => removeTasks(tx, taskIds))),

    switchOver: (of) =>
      heldWithPlan(of, (tx, change, branch, plan) => switchOver(tx, { change, branch, plan, images })),

    startServer: async (of) =>
      void (await heldWithPlan(of, async (tx, change, branch, plan) => {
        if (branch.status !== "dropping" && (await hasNoServer(tx, branch)))
          await startServer(tx, branch, plan, imagesOf(images, change, branch), { restore: restoreOf(change) });
      })),

    proven: (of, read) =>
      held(of, async (tx, { id }, now) => {
        if (now === null || !isSameTenant(read, now)) return false;
        for (const from of ["provisioning", "error"] as const) await moveBranch(tx, now.id, { from, to: "ready" });
        await endChange(tx, id, null);
        await wakeBranch(tx, now.id);
      }),

    refused: async (of) => void (await held(of, async (tx, _, now) => now && setDoubted(tx, now.id))),

    fail: (of, reason) =>
      held(of, async (tx, change, branch) => {
        if (branch !== null && change.state !== "copying") await setDoubted(tx, branch.id);
        if (branch !== null && losesVolume(change)) {
          // What it was to come out of, and the volume of before, are all that there is of it now.
          await keepVolumes(tx, branch.id, { keptHours: volumeHours.restore });
          await keepCopies(tx, branch.id, { keptHours: copyHours });
          for (const from of ["provisioning", "ready"] as const)
            await moveBranch(tx, branch.id, { from, to: "error", reason: `It could not be restored. ${reason}` });
        }
        await giveUp(tx, change, reason);
      }),
  };
}

async function findChangeRow(db: Db, id: string): Promise<ChangeRow | null> {
  const row = await db
    .selectFrom("database_change")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - state_at)::float8 * 1000`.as("since_ms"))
    .select(sql<number | null>`extract(epoch from clock_timestamp() - frozen_at)::float8 * 1000`.as("frozen_ms"))
    .select(
      sql<number | null>`(select extract(epoch from clock_timestamp() - tenant_at)::float8 * 1000
        from database where database.id = database_change.database_id)`.as("tenant_ms"),
    )
    .where("id", "=", id)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { since_ms, frozen_ms, tenant_ms, ...change } = row;
  const { database_id: databaseId, volume_generation: generation, state } = change;
  const [branch, copy, volume, backingUp] = await Promise.all([
    findBranchRow(db, databaseId),
    change.copy_id === null ? null : findCopyRow(db, change.copy_id),
    generation === null ? null : findOwnVolume(db, { databaseId, generation }),
    isBackingUp(db, databaseId),
  ]);
  // After the switch the server waits for its machine, whatever that says.
  const isAsked = branch !== null && copy !== null && copy.copy.node_id !== null && state !== "restoring";
  return {
    ...{ change, sinceMs: since_ms, frozenMs: frozen_ms, tenantMs: tenant_ms, branch, copy, backingUp },
    volumeLost: generation !== null && volume === null,
    nodes: isAsked ? await listNodeRows(db) : [],
  };
}

async function findCopyRow(db: Db, copyId: string): Promise<ChangeRow["copy"]> {
  const row = await db
    .selectFrom("database_copy")
    .selectAll()
    .select(sql<number | null>`extract(epoch from clock_timestamp() - covered_at)::float8 * 1000`.as("behind_ms"))
    .where("id", "=", copyId)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { behind_ms, ...copy } = row;
  return { copy, behindMs: behind_ms, nodeGone: await isNodeGone(db, copy.node_id) };
}

const setDoubted = (tx: Db, id: string) => tx.updateTable("database").set(doubted).where("id", "=", id).execute();

async function removeServers(tx: Db, databaseId: string): Promise<void> {
  const servers = await listWantedTasks(tx, databaseId, "database");
  await removeTasks(
    tx,
    servers.map(({ id }) => id),
  );
}

/** The end without success: the branch goes on by itself, and a copy that was made for this is of no more use. */
async function giveUp(tx: Db, { id, copy_id, database_id }: Change, reason: string): Promise<void> {
  await endChange(tx, id, reason);
  if (copy_id !== null) {
    const copy = await tx.selectFrom("database_copy").select("purpose").where("id", "=", copy_id).executeTakeFirst();
    if (copy?.purpose === "move") await endCopy(tx, copy_id, { keptHours: copyHours });
  }
  await wakeBranch(tx, database_id);
}

/** Where the branch has its data next, and until when nothing of that is lost; null: there it cannot be any more. */
async function nextVolume(tx: Db, { kind, database_id, copy_id, until, volume_generation: generation }: Change) {
  if (generation !== null) {
    const volume = await findOwnVolume(tx, { databaseId: database_id, generation });
    return volume && { nodeId: volume.nodeId, generation, covered_at: null };
  }
  const copy = await tx
    .selectFrom("database_copy")
    .selectAll()
    .where("id", "=", copy_id ?? "")
    .forUpdate()
    .executeTakeFirst();
  if (copy?.node_id == null) return null;
  const covered_at = kind === "move" ? sql<Date>`clock_timestamp()` : (until ?? copy.covered_at);
  return { nodeId: copy.node_id, covered_at };
}

async function switchOver(
  tx: Db,
  {
    change,
    branch: before,
    plan,
    images,
  }: { change: Change; branch: Branch; plan: Plan; images: Readonly<Record<DatabaseEngine, string>> },
): Promise<number | null> {
  if (!maySwitch(change, before) || !(await hasNoServer(tx, before))) return null;
  if (change.kind === "upgrade") {
    await startServer(tx, before, plan, imagesOf(images, change, before));
    await moveChange(tx, change.id, "restoring");
    return before.generation;
  }
  const next = await nextVolume(tx, change);
  if (next === null) return null;
  const { covered_at, ...place } = next;
  const branch = await takeVolume(tx, before, { ...place, keptHours: volumeHours[change.kind] });
  // Their keepers would go on with the log of another volume.
  await endCopies(tx, branch.id, { keptHours: copyHours });
  await startServer(tx, branch, plan, images, { restore: restoreOf(change) });
  await moveBranch(tx, branch.id, { from: "error", to: "provisioning" });
  await moveChange(tx, change.id, "restoring", { covered_at, to_node: place.nodeId });
  return branch.generation;
}
