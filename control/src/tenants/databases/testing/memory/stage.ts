import { randomUUID } from "node:crypto";
import { defaultDatabaseImages } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { loadBranchesOfNodes } from "../../../../fleet/database-tables/facts.ts";
import type { ReachableBranch } from "../../../../fleet/database-tables/table.ts";
import { loadVolumesOfNodes } from "../../../../fleet/database-volumes/facts.ts";
import type { KnownVolume } from "../../../../fleet/database-volumes/rules.ts";
import { type FailedServerRows, failedServerRows } from "../../../../fleet/databases/failed.ts";
import { memoryFailedServerRows } from "../../../../fleet/testing/failed-server-rows.ts";
import { MemoryTables, type MemoryTask, type Transact } from "../../../../fleet/testing/tables.ts";
import { testApi } from "../../../../http/testing.ts";
import { databaseKind } from "../../../../identity/plans/reconcile-databases.ts";
import type { Branch } from "../../../../stores/db/tables.ts";
import { serverSpecOf } from "../../facts.ts";
import { roleConnectionLimit } from "../../limits.ts";
import { type BranchRows, branchRows } from "../../rows.ts";
import { beginRotation, dropBranches, insertBranch, retryBranch, wakeBranch } from "../../store.ts";
import { MemoryBackups } from "./backups.ts";
import { memoryBranchRows } from "./branch-rows.ts";
import { type ChangeStage, memoryChanges, postgresChanges } from "./change-stage.ts";
import { type CopyStage, memoryCopies, postgresCopies } from "./copy-stage.ts";
import { branchesOfNode, volumesOfNode } from "./loads.ts";
import * as memory from "./tables.ts";

/** A server as every store tells of it. */
export interface SeenServer extends Pick<MemoryTask, "id" | "desired" | "pinnedTo" | "nodeId"> {
  init: boolean;
  readOnly: boolean;
  image: string;
  /** The copy that its volume begins with; null: none. */
  restores: string | null;
}

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable, ChangeStage, CopyStage {
  rows: BranchRows;
  failed: FailedServerRows;
  newNode(values?: { lifecycle?: "active" | "fenced" }): Promise<string>;
  /** A branch of the production of a project of its own. */
  newBranch(): Promise<{ id: string; projectId: string }>;
  branch(id: string): Promise<Branch | null>;
  set(id: string, change: Partial<Branch>): Promise<void>;
  /** Its project is off the air, or not. */
  suspend(projectId: string, isOff: boolean): Promise<void>;
  rotate(id: string): Promise<void>;
  retry(id: string): Promise<void>;
  drop(projectId: string): Promise<void>;
  wake(id: string): Promise<void>;
  /** Items of work about it that wait. */
  works(id: string): Promise<number>;
  servers(id: string): Promise<SeenServer[]>;
  /** The leader has placed a server, or has seen its end. */
  place(taskId: string, nodeId: string): Promise<void>;
  reap(taskId: string): Promise<void>;
  /** Every server of it was asked for then. */
  ageServers(id: string, at: Date): Promise<void>;
  volumes(nodeId: string): Promise<KnownVolume[]>;
  /** The time for which its volumes of before are kept is over. */
  endKeeping(id: string): Promise<void>;
  isRemembered(id: string): Promise<boolean>;
  /** What a node is told that has containers of those projects. */
  reachable(nodeId: string, projectIds: readonly string[]): Promise<ReachableBranch[]>;
}

/** A branch that is ready on one node, and another node. */
export async function readyBranch(stage: Stage) {
  const [nodeId, other] = [await stage.newNode(), await stage.newNode()];
  const { id, projectId } = await stage.newBranch();
  const read = async (): Promise<Branch> => {
    const branch = await stage.branch(id);
    if (branch === null) throw new Error("there is no such branch");
    return branch;
  };
  await stage.rows.startServer(await read());
  const taskId = (await stage.servers(id)).at(-1)?.id ?? "";
  await stage.place(taskId, nodeId);
  await stage.rows.pin(await read(), nodeId);
  const found = await stage.rows.find(id);
  if (found !== null) await stage.rows.brought(found.branch, roleConnectionLimit(found.plan));
  await stage.rows.proven(await read());
  return { id, projectId, nodeId, other, taskId };
}

const passwords = () => ({ admin_secret: Buffer.from(randomUUID()), secret: Buffer.from(randomUUID()) });
const address = "10.1.2.3";

export async function postgresStage(): Promise<Stage> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await testApi());
  const { db } = api;
  const { secrets } = api.context;
  let nodes = 0;
  const branch = async (id: string) =>
    (await db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirst()) ?? null;
  return {
    rows: branchRows(db, defaultDatabaseImages),
    failed: failedServerRows(db),
    ...postgresChanges(db),
    ...postgresCopies(db),
    branch,
    async newNode({ lifecycle = "active" } = {}) {
      const row = { role: "node" as const, name: `machine-${++nodes}`, labels: "{}", lifecycle, address };
      const { id } = await db.insertInto("node").values(row).returning("id").executeTakeFirstOrThrow();
      return id;
    },
    async newBranch() {
      const { id: projectId } = await api.newProject(await api.newUser());
      const id = randomUUID();
      await insertBranch(db, secrets, { id, projectId, channel: "production", engine: "postgres" });
      return { id, projectId };
    },
    set: async (id, change) => void (await db.updateTable("database").set(change).where("id", "=", id).execute()),
    async suspend(projectId, isOff) {
      const change = isOff
        ? { suspended_at: sql<Date>`now()`, suspend_reason: "admin" as const }
        : { suspended_at: null, suspend_reason: null };
      await db.updateTable("project").set(change).where("id", "=", projectId).execute();
    },
    rotate: (id) => beginRotation(db, secrets, id),
    retry: (id) => retryBranch(db, id),
    drop: (projectId) => dropBranches(db, [projectId]),
    wake: async (id) => void (await wakeBranch(db, id)),
    async works(id) {
      const items = db.selectFrom("work_item").select("id").where("key", "=", `${databaseKind}/${id}`);
      return (await items.where("state", "=", "queued").execute()).length;
    },
    async servers(id) {
      const tasks = await db.selectFrom("task").selectAll().where("owner_id", "=", id).orderBy("epoch").execute();
      return tasks.map(({ spec, ...task }) => {
        const { init, readOnly, image, restore } = serverSpecOf({ spec });
        return {
          ...{ id: task.id, desired: task.desired, pinnedTo: task.pinned_to, nodeId: task.node_id },
          ...{ init, readOnly, image, restores: restore?.copyId ?? null },
        };
      });
    },
    place: async (taskId, nodeId) =>
      void (await db.updateTable("task").set({ node_id: nodeId }).where("id", "=", taskId).execute()),
    reap: async (taskId) =>
      void (await db.updateTable("task").set({ reaped_at: sql<Date>`now()` }).where("id", "=", taskId).execute()),
    ageServers: async (id, created_at) =>
      void (await db.updateTable("task").set({ created_at }).where("owner_id", "=", id).execute()),
    volumes: async (nodeId) => (await loadVolumesOfNodes(db, [nodeId])).get(nodeId) ?? [],
    endKeeping: async (id) =>
      void (await db
        .updateTable("database_volume")
        .set({ purge_at: sql<Date>`now() - interval '1 hour'` })
        .where("database_id", "=", id)
        .where("state", "!=", "current")
        .execute()),
    isRemembered: async (id) =>
      (await db.selectFrom("dropped_database").select("id").where("id", "=", id).executeTakeFirst()) !== undefined,
    async reachable(nodeId, projectIds) {
      const channels = projectIds.map((projectId) => ({ projectId, channel: "production" }));
      return (await loadBranchesOfNodes(db, [{ nodeId, channels, ownerIds: [] }])).get(nodeId) ?? [];
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

class Tables extends MemoryTables implements memory.DatabaseTables {
  readonly branches = new memory.MemoryBranches();
  readonly backups = new MemoryBackups();
}

export async function memoryStage(): Promise<Stage> {
  const tables = new Tables();
  const { branches } = tables;
  const tx = (): memory.Tx => ({ tables, now: systemClock.now(), notify() {} });
  const transact: Transact<memory.DatabaseTables> = async (work) => work(tx());
  return {
    rows: memoryBranchRows(transact),
    failed: memoryFailedServerRows(transact as Transact),
    ...memoryChanges(transact),
    ...memoryCopies(transact),
    branch: async (id) => branches.rows.get(id) ?? null,
    async newNode({ lifecycle = "active" } = {}) {
      const id = tables.id("n");
      tables.nodes.set(id, {
        ...{ id, role: "node", lifecycle, schedulable: true, drain: "none", drainGeneration: 0, drainDeadline: null },
        ...{ quarantinedAt: null, diskFull: false, entering: false, createdAt: systemClock.now(), seenAt: null },
      });
      return id;
    },
    async newBranch() {
      const [id, project_id] = [tables.id("b"), tables.id("p")];
      memory.insertBranch(tx(), { id, project_id, channel: "production", engine: "postgres", ...passwords() });
      return { id, projectId: project_id };
    },
    set: async (id, change) => branches.change(id, change),
    async suspend(projectId, isOff) {
      if (isOff) branches.suspended.add(projectId);
      else branches.suspended.delete(projectId);
    },
    rotate: async (id) => memory.beginRotation(tx(), id, Buffer.from(randomUUID())),
    retry: async (id) => memory.retryBranch(tx(), id),
    drop: async (projectId) => memory.dropBranches(tx(), projectId),
    async wake(id) {
      const row = branches.rows.get(id);
      if (row !== undefined) memory.wakeBranch(tx(), row);
    },
    works: async (id) =>
      [...tables.work.items.values()].filter(({ key, lease }) => key === `${databaseKind}/${id}` && lease === null)
        .length,
    servers: async (id) =>
      [...tables.tasks.values()]
        .filter(({ ownerId }) => ownerId === id)
        .map(({ id: own, desired, pinnedTo, nodeId, server }) => ({
          ...{ id: own, desired, pinnedTo, nodeId },
          ...{ init: server?.init === true, readOnly: server?.readOnly === true },
          ...{ image: server?.image ?? "", restores: server?.restore?.copyId ?? null },
        })),
    place: async (taskId, nodeId) => void Object.assign(tables.tasks.get(taskId) ?? {}, { nodeId }),
    reap: async (taskId) => tables.reap(taskId, systemClock.now()),
    ageServers: async (id, createdAt) => {
      for (const task of branches.serversOf(id)) Object.assign(task, { createdAt });
    },
    volumes: async (nodeId) => volumesOfNode(tx(), nodeId),
    async endKeeping(id) {
      const purgeAt = new Date(systemClock.now().getTime() - 3_600_000);
      for (const volume of branches.volumes.values())
        if (volume.databaseId === id && volume.state !== "current") volume.purgeAt = purgeAt;
    },
    isRemembered: async (id) => branches.dropped.has(id),
    reachable: async (nodeId, projectIds) =>
      branchesOfNode(
        tx(),
        {
          ...{ nodeId, ownerIds: [] },
          channels: projectIds.map((projectId) => ({ projectId, channel: "production" })),
        },
        (at) => ({ nodeId: at, address }),
      ),
    [Symbol.asyncDispose]: async () => {},
  };
}
