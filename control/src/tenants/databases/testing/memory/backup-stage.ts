import { randomUUID } from "node:crypto";
import { type Channel, defaultDatabaseImages } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { MemoryTables, type MemoryTask, type Transact } from "../../../../fleet/testing/tables.ts";
import { testApi } from "../../../../http/testing.ts";
import type { Backup, Branch } from "../../../../stores/db/tables.ts";
import { type BackupRows, backupRows } from "../../backups/rows.ts";
import { type NightRows, nightRows } from "../../backups/schedule/rows.ts";
import { saveSchedule } from "../../backups/schedule/store.ts";
import { backupWork, deleteBackup, findBackup, insertBackup } from "../../backups/store.ts";
import { endChange, insertChange } from "../../changes/store.ts";
import { branchRows } from "../../rows.ts";
import { insertBranch, lockBranch } from "../../store.ts";
import * as requests from "./backup-requests.ts";
import { memoryBackupRows, memoryNightRows } from "./backup-rows.ts";
import * as backups from "./backups.ts";
import { memoryBranchRows } from "./branch-rows.ts";
import { requestUpgrade } from "./change-requests.ts";
import * as branches from "./tables.ts";

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface BackupStage extends AsyncDisposable {
  rows: BackupRows;
  nights: NightRows;
  /** How many a plan keeps. */
  maxBackups: number;
  newNode(): Promise<string>;
  /** A branch of the production of a project of its own, with a server that was placed on the node. */
  newBranch(nodeId: string): Promise<{ id: string; projectId: string; serverId: string }>;
  setBranch(id: string, change: Partial<Branch>): Promise<void>;
  suspend(projectId: string): Promise<void>;
  /** A change has the branch in its hands until it is told to end. */
  hold(id: string): Promise<() => Promise<void>>;
  /** Null: another one of the project is under way. */
  begin(of: { id: string; projectId: string }, channel?: Channel, scheduledKeep?: number): Promise<string | null>;
  remove(id: string): Promise<boolean>;
  /** Its production is backed up every night from the next one on, or not any more. */
  schedule(projectId: string, keep: number | null): Promise<void>;
  /** The next night begins, for what is there of the branch. */
  nightFalls(of: { id: string; projectId: string }): Promise<void>;
  backup(projectId: string, id: string): Promise<Backup | null>;
  /** What was made for it. */
  tasks(id: string): Promise<{ id: string; desired: MemoryTask["desired"]; pinnedTo: string | null; spec: unknown }[]>;
  removeTask(taskId: string): Promise<void>;
  /** Items of work about it. */
  works(id: string): Promise<number>;
}

const maxBackups = 3;

export async function postgresBackupStage(): Promise<BackupStage> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await testApi());
  const { db } = api;
  const rows = backupRows(db);
  let nodes = 0;
  const daysAgo = (days: number) => new Date(systemClock.now().getTime() - days * 86_400_000);
  return {
    rows,
    nights: nightRows(db),
    maxBackups,
    async newNode() {
      const row = { role: "node" as const, name: `machine-${++nodes}`, labels: "{}", lifecycle: "active" as const };
      return (await db.insertInto("node").values(row).returning("id").executeTakeFirstOrThrow()).id;
    },
    async newBranch(nodeId) {
      const { id: projectId } = await api.newProject(await api.newUser({ plan: { max_backups: maxBackups } }));
      const id = randomUUID();
      await insertBranch(db, api.context.secrets, { id, projectId, channel: "production", engine: "postgres" });
      await branchRows(db, defaultDatabaseImages).startServer({ id, status: "provisioning" });
      await db.updateTable("database").set({ status: "ready", node_id: nodeId }).where("id", "=", id).execute();
      const placed = db.updateTable("task").set({ node_id: nodeId }).where("owner_id", "=", id);
      return { id, projectId, serverId: (await placed.returning("id").executeTakeFirstOrThrow()).id };
    },
    setBranch: async (id, change) => void (await db.updateTable("database").set(change).where("id", "=", id).execute()),
    async suspend(projectId) {
      const change = { suspended_at: sql<Date>`now()`, suspend_reason: "admin" as const };
      await db.updateTable("project").set(change).where("id", "=", projectId).execute();
    },
    hold: (id) =>
      db.transaction().execute(async (tx) => {
        const branch = await lockBranch(tx, id);
        if (branch === null) throw new Error("there is no such branch");
        const change = { id: randomUUID(), kind: "upgrade", state: "stopping", requested_by: "svc" } as const;
        await insertChange(tx, branch, { ...change, copy_id: null, until: null, to_node: null, covered_at: null });
        return () => endChange(db, change.id, null);
      }),
    async begin({ id: databaseId, projectId }, channel = "production", scheduledKeep) {
      const id = randomUUID();
      const of = { id, projectId, databaseId, channel, engine: "postgres" as const };
      const keep = scheduledKeep === undefined ? {} : { scheduledKeep };
      return (await db.transaction().execute((tx) => insertBackup(tx, { ...of, ...keep }))) ? id : null;
    },
    remove: (id) => deleteBackup(db, id),
    schedule: (projectId, keep) =>
      saveSchedule(db, projectId, keep === null ? null : { channels: ["production"], keep }),
    async nightFalls({ id, projectId }) {
      const schedules = db.updateTable("database_backup_schedule").set({ night: daysAgo(2) });
      await schedules.where("project_id", "=", projectId).execute();
      await db
        .updateTable("database")
        .set({ created_at: daysAgo(9) })
        .where("id", "=", id)
        .execute();
    },
    backup: (projectId, id) => findBackup(db, projectId, id),
    async tasks(id) {
      const found = await db.selectFrom("task").selectAll().where("owner_id", "=", id).orderBy("epoch").execute();
      return found.map((task) => ({ id: task.id, desired: task.desired, pinnedTo: task.pinned_to, spec: task.spec }));
    },
    removeTask: async (taskId) =>
      void (await db.updateTable("task").set({ desired: "removed" }).where("id", "=", taskId).execute()),
    async works(id) {
      const items = db.selectFrom("work_item").select("id").where("key", "=", `${backupWork}/${id}`);
      return (await items.execute()).length;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

class Tables extends MemoryTables implements branches.DatabaseTables {
  readonly branches = new branches.MemoryBranches();
  readonly backups = new backups.MemoryBackups();
}

export async function memoryBackupStage(): Promise<BackupStage> {
  const tables = new Tables();
  const began = systemClock.now().getTime();
  let asked = 0;
  // No two at the same moment: what is newer is told by that.
  const tx = (): branches.Tx => ({ tables, now: new Date(began + ++asked), notify() {} });
  const transact: Transact<branches.DatabaseTables> = async (work) => work(tx());
  return {
    rows: memoryBackupRows(transact),
    nights: memoryNightRows(transact),
    maxBackups: tables.branches.plan.max_backups,
    newNode: async () => tables.id("n"),
    async newBranch(nodeId) {
      const [id, project_id] = [tables.id("b"), tables.id("p")];
      const passwords = { admin_secret: Buffer.from(randomUUID()), secret: Buffer.from(randomUUID()) };
      branches.insertBranch(tx(), { id, project_id, channel: "production", engine: "postgres", ...passwords });
      await memoryBranchRows(transact as Transact<branches.DatabaseTables>).startServer({ id, status: "provisioning" });
      tables.branches.change(id, { status: "ready", node_id: nodeId });
      const [server] = tables.branches.serversOf(id);
      if (server === undefined) throw new Error("there is no server");
      server.nodeId = nodeId;
      return { id, projectId: project_id, serverId: server.id };
    },
    setBranch: async (id, change) => tables.branches.change(id, change),
    suspend: async (projectId) => void tables.branches.suspended.add(projectId),
    async hold(id) {
      const branch = tables.branches.rows.get(id);
      const change = branch === undefined ? null : requestUpgrade(tx(), branch, "svc/postgres:next");
      if (change === null) throw new Error("there is no such branch");
      return async () => void tables.branches.changes.set(change.id, { ...change, state: "done", ended_at: tx().now });
    },
    async begin({ id: database_id, projectId }, channel = "production", scheduledKeep) {
      const id = tables.id("u");
      const of = { id, project_id: projectId, database_id, channel, engine: "postgres" as const };
      return requests.insertBackup(tx(), { ...of, scheduled_keep: scheduledKeep ?? null }) ? id : null;
    },
    remove: async (id) => requests.deleteBackup(tx(), id),
    schedule: async (projectId, keep) => requests.saveSchedule(tx(), projectId, "production", keep),
    async nightFalls() {
      tables.backups.lastNight = tx().now;
    },
    backup: async (_projectId, id) => tables.backups.rows.get(id) ?? null,
    tasks: async (id) =>
      [...tables.tasks.values()]
        .filter(({ ownerId }) => ownerId === id)
        .map((task) => ({ id: task.id, desired: task.desired, pinnedTo: task.pinnedTo, spec: task.backup })),
    removeTask: async (taskId) => tables.removeTasks([taskId]),
    works: async (id) => [...tables.work.items.values()].filter(({ key }) => key === `${backupWork}/${id}`).length,
    [Symbol.asyncDispose]: async () => {},
  };
}
