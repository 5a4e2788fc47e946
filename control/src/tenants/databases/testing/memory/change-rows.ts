import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { nodeRowsOf } from "../../../../fleet/testing/scheduler-rows.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { Branch, Change } from "../../../../stores/db/tables.ts";
import { copyHours, volumeHours } from "../../changes/kept.ts";
import type { ChangeAt, ChangeRow, ChangeRows } from "../../changes/rows.ts";
import { imagesOf, losesVolume, mayFreeze, maySwitch, restoreOf } from "../../changes/switch.ts";
import type { ServerPlan } from "../../facts.ts";
import { isSameTenant } from "../../tenant-rows.ts";
import { find, memoryImages, memoryTenantRows, startServer, told } from "./branch-rows.ts";
import { beginCopy, endCopies, endCopy, keepCopies } from "./copies.ts";
import { type DatabaseTables, hasNoServer, moveBranch, type Tx, wakeBranch, wakeCopies } from "./tables.ts";
import { findOwnVolume, keepVolumes, nextGeneration, placeVolume, retireVolume } from "./volumes.ts";

/** What work on changes asks, answered from memory. */
export function memoryChangeRows(transact: Transact<DatabaseTables>): ChangeRows {
  /** As in `changes/rows.ts`. */
  const held = <T>(
    { id, database_id, state, freezes }: ChangeAt,
    act: (tx: Tx, change: Change, branch: Branch | null) => T,
    otherwise: (tx: Tx) => T,
  ): Promise<T> =>
    transact((tx) => {
      const { changes, rows } = tx.tables.branches;
      const change = changes.get(id);
      if (change?.state !== state || change.freezes !== freezes) return otherwise(tx);
      const branch = rows.get(database_id) ?? null;
      const done = act(tx, change, branch);
      // Of where it was, and of where it is now.
      for (const each of [branch, rows.get(database_id)]) if (each != null) told(tx, each);
      return done;
    });
  const no = () => false;
  /** The same of one whose branch is there. */
  const heldBranch = (of: ChangeAt, act: (tx: Tx, change: Change, branch: Branch) => boolean): Promise<boolean> =>
    held(of, (tx, change, branch) => branch !== null && act(tx, change, branch), no);

  return {
    ...memoryTenantRows(transact),
    find: (id) => transact((tx) => findChange(tx, id)),

    beginCopy: async (of) =>
      void (await heldBranch(of, (tx, { id, to_node }, branch) => {
        wakeCopies(tx, branch.id);
        return set(tx, id, { copy_id: beginCopy(tx, branch, { purpose: "move", nodeId: to_node }) });
      })),

    beginFreeze: (of) =>
      heldBranch(
        of,
        (tx, change, branch) =>
          mayFreeze(change, branch) &&
          !tx.tables.backups.isUnderWay(branch.id) &&
          move(tx, change.id, "freezing", { freezes: change.freezes + 1, frozen_at: tx.now }),
      ),

    frozen: (of, frozen) =>
      held<"stopping" | "draining" | null>(
        of,
        (tx, { id, undoing }, branch) => {
          if (undoing !== null && branch !== null) tx.tables.branches.doubt(branch.id);
          if (undoing !== null || frozen === null) return null;
          const to = frozen.isCopied ? "stopping" : "draining";
          move(tx, id, to, { frozen_position: frozen.position });
          if (to === "stopping") removeServers(tx, of.database_id);
          return to;
        },
        (tx) => {
          const { branches } = tx.tables;
          const branch = branches.rows.get(of.database_id);
          branches.doubt(of.database_id);
          if (branch !== undefined) wakeBranch(tx, branch);
          return null;
        },
      ),

    stop: (of) =>
      held(
        of,
        (tx, { id, undoing, database_id }) => {
          if (undoing !== null) return false;
          move(tx, id, "stopping");
          return removeServers(tx, database_id);
        },
        no,
      ),

    undo: async (of, undoing) => void (await held(of, (tx, { id }) => set(tx, id, { undoing }), no)),

    settle: (of, { to, reason }, isOpen) =>
      held(
        of,
        (tx, change, branch) => {
          if (branch !== null && !isOpen) tx.tables.branches.doubt(branch.id);
          if (to === "failed") return giveUp(tx, change, branch, reason);
          move(tx, change.id, "copying", { undoing: null, frozen_position: null, frozen_at: null });
          if (branch !== null) wakeBranch(tx, branch);
          return true;
        },
        no,
      ),

    removeServers: async (of, taskIds) => void (await held(of, (tx) => remove(tx, taskIds), no)),

    switchOver: (of) =>
      held<number | null>(
        of,
        (tx, change, branch) => (branch === null ? null : switchOver(tx, change, branch)),
        () => null,
      ),

    startServer: async (of) =>
      void (await heldBranch(of, (tx, change, branch) => {
        if (branch.status === "dropping" || !hasNoServer(tx, branch)) return false;
        startServer(tx, branch, { images: imagesOf(memoryImages, change, branch), restore: restoreOf(change) });
        return true;
      })),

    proven: (of, read) =>
      heldBranch(of, (tx, { id }, now) => {
        if (!isSameTenant(read, now)) return false;
        for (const from of ["provisioning", "error"] as const) moveBranch(tx, now.id, { from, to: "ready" });
        end(tx, id, null);
        wakeBranch(tx, now);
        return true;
      }),

    refused: async (of) =>
      void (await heldBranch(of, ({ tables }, _, { id }) => {
        tables.branches.doubt(id);
        return true;
      })),

    fail: (of, reason) =>
      held(
        of,
        (tx, change, branch) => {
          if (branch !== null && change.state !== "copying") tx.tables.branches.doubt(branch.id);
          if (branch !== null && losesVolume(change)) {
            keepVolumes(tx, branch.id, volumeHours.restore);
            keepCopies(tx, branch.id, copyHours);
            for (const from of ["provisioning", "ready"] as const)
              moveBranch(tx, branch.id, { from, to: "error", reason: `It could not be restored. ${reason}` });
          }
          return giveUp(tx, change, branch, reason);
        },
        no,
      ),
  };
}

function set({ tables: { branches } }: Tx, id: string, change: Partial<Change>): true {
  const row = branches.changes.get(id);
  if (row !== undefined) branches.changes.set(id, { ...row, ...change });
  return true;
}

const move = (tx: Tx, id: string, state: Change["state"], change: Partial<Change> = {}): true =>
  set(tx, id, { ...change, state, state_at: tx.now });

const end = (tx: Tx, id: string, problem: string | null): true =>
  move(tx, id, problem === null ? "done" : "failed", { problem, ended_at: tx.now });

function remove({ tables, notify }: Tx, taskIds: readonly string[]): true {
  tables.removeTasks(taskIds);
  notify(taskTopic);
  return true;
}

const removeServers = (tx: Tx, databaseId: string): true =>
  remove(
    tx,
    tx.tables.branches
      .serversOf(databaseId)
      .filter(({ desired, reapedAt }) => desired === "running" && reapedAt === null)
      .map(({ id }) => id),
  );

function giveUp(tx: Tx, { id, copy_id }: Change, branch: Branch | null, reason: string): true {
  end(tx, id, reason);
  if (copy_id !== null && tx.tables.branches.copies.get(copy_id)?.purpose === "move") endCopy(tx, copy_id, copyHours);
  if (branch !== null) wakeBranch(tx, branch);
  return true;
}

function findChange(tx: Tx, id: string): ChangeRow<ServerPlan> | null {
  const { tables, now } = tx;
  const change = tables.branches.changes.get(id);
  if (change === undefined) return null;
  const sinceMs = (at: Date | null | undefined): number | null => (at == null ? null : now.getTime() - at.getTime());
  const branch = find(tx, change.database_id);
  const copy = tables.branches.copies.get(change.copy_id ?? "");
  const { volume_generation: generation, state } = change;
  const isAsked = branch !== null && copy !== undefined && copy.node_id !== null && state !== "restoring";
  return {
    ...{ change, branch, backingUp: tables.backups.isUnderWay(change.database_id) },
    ...{ sinceMs: sinceMs(change.state_at) ?? 0, frozenMs: sinceMs(change.frozen_at) },
    tenantMs: sinceMs(branch?.branch.tenant_at),
    copy:
      copy === undefined
        ? null
        : {
            ...{ copy, behindMs: sinceMs(copy.covered_at) },
            nodeGone: copy.node_id !== null && tables.nodes.get(copy.node_id)?.lifecycle !== "active",
          },
    volumeLost: generation !== null && findOwnVolume(tx, change.database_id, generation) === null,
    nodes: isAsked ? nodeRowsOf(tables) : [],
  };
}

function switchOver(tx: Tx, change: Change, before: Branch): number | null {
  const { branches } = tx.tables;
  if (!maySwitch(change, before) || !hasNoServer(tx, before)) return null;
  if (change.kind === "upgrade") {
    startServer(tx, before, { images: imagesOf(memoryImages, change, before) });
    move(tx, change.id, "restoring");
    return before.generation;
  }
  const next = nextVolume(tx, change);
  if (next === null) return null;
  const { nodeId, covered_at } = next;
  const branch = takeVolume(tx, before, { ...next, keptHours: volumeHours[change.kind] });
  endCopies(tx, branch.id, copyHours);
  startServer(tx, branch, { restore: restoreOf(change) });
  moveBranch(tx, branch.id, { from: "error", to: "provisioning" });
  move(tx, change.id, "restoring", { covered_at, to_node: nodeId });
  return branches.rows.get(branch.id)?.generation ?? null;
}

function nextVolume(tx: Tx, { kind, database_id, copy_id, until, volume_generation: generation }: Change) {
  if (generation !== null) {
    const volume = findOwnVolume(tx, database_id, generation);
    return volume && { nodeId: volume.nodeId, generation, covered_at: null };
  }
  const copy = tx.tables.branches.copies.get(copy_id ?? "");
  if (copy?.node_id == null) return null;
  return { nodeId: copy.node_id, covered_at: kind === "move" ? tx.now : (until ?? copy.covered_at) };
}

/** See `takeVolume` of `changes/store.ts`. */
function takeVolume(
  tx: Tx,
  branch: Branch,
  { nodeId, keptHours, ...taken }: { nodeId: string; keptHours: number; generation?: number },
): Branch {
  const generation = taken.generation ?? nextGeneration(tx, branch);
  const { id: databaseId, node_id, tenant_doubts } = branch;
  if (node_id !== null && branch.generation !== generation)
    retireVolume(tx, { databaseId, generation: branch.generation, nodeId: node_id }, { state: "salvage", keptHours });
  placeVolume(tx, { databaseId, generation, nodeId });
  const change = { generation, node_id: nodeId, keeper_at: null, tenant_at: null, tenant_doubts: tenant_doubts + 1 };
  tx.tables.branches.change(databaseId, change);
  return { ...branch, ...change };
}
