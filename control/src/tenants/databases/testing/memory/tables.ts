import type { Channel, DatabaseEngine } from "@svc/proto";
import { copiesKind } from "../../../../fleet/databases/checks.ts";
import { wakeDatabase } from "../../../../fleet/testing/failed-server-rows.ts";
import type { MemoryTables, MemoryTask, MemoryTransaction } from "../../../../fleet/testing/tables.ts";
import type { Branch, Change, Copy, Plan } from "../../../../stores/db/tables.ts";
import { holding } from "../../changes/switch.ts";
import type { ServerPlan } from "../../facts.ts";
import type { MemoryBackups } from "./backups.ts";

/** Where a branch has, or had, its data. */
export interface VolumeRow {
  readonly databaseId: string;
  readonly generation: number;
  nodeId: string;
  state: "current" | "salvage" | "dropped";
  /** Until when it is kept; null: nobody has said. */
  purgeAt: Date | null;
  goneAt: Date | null;
}

/** Branches, and what is known of their volumes, their copies and their changes. */
export class MemoryBranches {
  /** As their rows in Postgres are. Each change makes another object: what was read stays as it was. */
  readonly rows = new Map<string, Branch>();
  /** What is remembered of those that were dropped. */
  readonly dropped = new Map<string, Branch>();
  /** By id and generation. */
  readonly volumes = new Map<string, VolumeRow>();
  /** Likewise as their rows are, and in the order in which they were made. */
  readonly copies = new Map<string, Copy>();
  readonly changes = new Map<string, Change>();
  /** Tasks that are or were the server of a branch, or keep or kept a copy, in the order in which they were made. */
  private readonly tasks = new Map<string, MemoryTask[]>();
  /** Projects that are off the air, and that are being deleted. */
  readonly suspended = new Set<string>();
  readonly deleting = new Set<string>();
  /** Of every owner. */
  plan: ServerPlan & Pick<Plan, "max_backups"> = {
    ...{ db_connection_limit: 10, db_size_mb: 256, cpu_millicores: 500, node_selector: {}, max_backups: 3 },
  };

  serversOf(databaseId: string): readonly MemoryTask[] {
    return this.tasks.get(databaseId) ?? [];
  }

  /** Those that are not over. */
  keepersOf(copyId: string): MemoryTask[] {
    return (this.tasks.get(copyId) ?? []).filter(({ reapedAt }) => reapedAt === null);
  }

  addTask(task: MemoryTask): void {
    this.tasks.set(task.ownerId, [...(this.tasks.get(task.ownerId) ?? []), task]);
  }

  forget(databaseId: string): void {
    this.rows.delete(databaseId);
    this.tasks.delete(databaseId);
  }

  change(id: string, change: Partial<Branch>): void {
    const row = this.rows.get(id);
    if (row !== undefined) this.rows.set(id, { ...row, ...change });
  }

  /** Role and database in the server may not be what they should; see `doubted` of `store.ts`. */
  doubt(id: string): void {
    const row = this.rows.get(id);
    if (row !== undefined) this.change(id, { tenant_at: null, tenant_doubts: row.tenant_doubts + 1 });
  }

  /** See `lockForRedo` of `fleet/tasks/owners/copy.ts`. */
  mayRedo(copyId: string): boolean {
    return this.copies.has(copyId);
  }

  /** Those that have not ended. */
  copiesOf(databaseId: string): Copy[] {
    return [...this.copies.values()].filter((copy) => copy.database_id === databaseId && copy.state !== "ended");
  }

  /** What it is under; null: nothing. */
  openChange(databaseId: string): Change | null {
    for (const change of this.changes.values())
      if (change.database_id === databaseId && change.ended_at === null) return change;
    return null;
  }

  /** See `holdsBranch` of `changes/store.ts`. */
  isHeld(databaseId: string): boolean {
    const state = this.openChange(databaseId)?.state;
    return holding.some((each) => each === state);
  }

  ofProject(projectId: string): Branch[] {
    return [...this.rows.values()].filter((row) => row.project_id === projectId);
  }
}

/** The rows that work on branches, their changes and their backups asks for and changes. */
export interface DatabaseTables extends MemoryTables {
  readonly branches: MemoryBranches;
  readonly backups: MemoryBackups;
}

export type Tx = MemoryTransaction<DatabaseTables>;

export const volumeKey = (databaseId: string, generation: number): string => `${databaseId} ${generation}`;

/** See `wakeBranch` of `store.ts`. */
export const wakeBranch = (tx: Tx, { id, project_id: projectId }: Branch): void => wakeDatabase(tx, { id, projectId });

/** See `enqueueCopies` of `fleet/databases/checks.ts`. */
export function wakeCopies(tx: Tx, databaseId: string): void {
  const key = copyWorkKey(databaseId);
  const isWaiting = [...tx.tables.work.items.values()].some((item) => item.key === key && item.lease === null);
  if (!isWaiting) tx.tables.work.add(tx, { kind: copiesKind, key, payload: { databaseId } });
}

export const copyWorkKey = (databaseId: string): string => `${copiesKind}/${databaseId}`;

/** As whoever declares a machine lost has it; see `wakeFollowers` of `fleet/nodes/actions/act.ts`. */
export function wakeBranchesOn(tx: Tx, nodeId: string): void {
  const { branches } = tx.tables;
  for (const row of branches.rows.values())
    if (row.node_id === nodeId || branches.serversOf(row.id).some((task) => task.nodeId === nodeId))
      wakeBranch(tx, row);
}

/** See `insertBranch` there; the passwords are sealed already. */
export function insertBranch(
  tx: Tx,
  branch: Pick<Branch, "id" | "project_id" | "admin_secret" | "secret"> & { channel: Channel; engine: DatabaseEngine },
): void {
  tx.tables.branches.rows.set(branch.id, {
    ...branch,
    ...{
      status: "provisioning",
      status_at: tx.now,
      reason: null,
      pending_secret: null,
      node_id: null,
      tenant_at: null,
    },
    ...{ tenant_doubts: 0, role_connection_limit: null, read_only: false, size_bytes: null, connections: null },
    ...{ measured_at: null, created_at: tx.now, volume_bytes: null, sized_volume_bytes: null, read_only_soft: null },
    ...{ generation: 1, keeper_secret: null, keeper_at: null, copies_looked_at: null, server_failures: 0 },
  });
}

/** See `moveBranch` there. */
export function moveBranch(
  { tables: { branches }, now }: Tx,
  id: string,
  { from, to, reason = null }: { from: Branch["status"]; to: Branch["status"]; reason?: string | null },
): boolean {
  if (branches.rows.get(id)?.status !== from) return false;
  branches.change(id, { status: to, reason, status_at: now });
  return true;
}

/** See `retryBranch` there. */
export function retryBranch(tx: Tx, id: string): void {
  if (moveBranch(tx, id, { from: "error", to: "provisioning" })) tx.tables.branches.doubt(id);
}

/** See `dropBranches` there. */
export function dropBranches(tx: Tx, projectId: string, channel?: Channel): void {
  const { branches } = tx.tables;
  for (const row of branches.ofProject(projectId))
    if (channel === undefined || row.channel === channel) moveBranch(tx, row.id, { from: row.status, to: "dropping" });
  for (const row of branches.ofProject(projectId)) wakeBranch(tx, row);
}

/** See `beginRotation` there; the password is sealed already. */
export function beginRotation(tx: Tx, id: string, pending: Buffer): void {
  const row = tx.tables.branches.rows.get(id);
  if (row === undefined) return;
  if (row.pending_secret === null) tx.tables.branches.change(id, { pending_secret: pending });
  wakeBranch(tx, row);
}

/** See `hasNoServer` there. */
export function hasNoServer({ tables }: Pick<Tx, "tables">, { id, node_id }: Pick<Branch, "id" | "node_id">): boolean {
  const isInTheWay = ({ reapedAt, nodeId }: MemoryTask): boolean =>
    reapedAt === null || (node_id === null && nodeId !== null);
  return !tables.branches.serversOf(id).some(isInTheWay);
}
