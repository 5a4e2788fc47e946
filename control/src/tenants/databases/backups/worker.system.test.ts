import { randomBytes, randomUUID } from "node:crypto";
import { defaultDatabaseImages } from "@svc/proto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { keys, type ObservationValue } from "../../../fleet/cluster/keys.ts";
import { openTenantPassword } from "../../../fleet/databases/secrets.ts";
import { startTestFleet, type TestFleet } from "../../../fleet/nodes/testing.ts";
import { createPlacementLoader } from "../../../fleet/tasks/assignment.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Branch, Node, Task } from "../../../stores/db/tables.ts";
import { until } from "../../../stores/etcd/testing.ts";
import type { WorkOutcome } from "../../../stores/work/queue.ts";
import { endChange, insertChange, moveChange } from "../changes/store.ts";
import { startServer } from "../servers.ts";
import { insertBranch } from "../store.ts";
import { type BackupRows, backupRows } from "./rows.ts";
import { saveSchedule } from "./schedule/store.ts";
import { deleteBackup, insertBackup } from "./store.ts";
import { backupWorker } from "./worker.ts";

let server: RegistryProcess;
let registry: Registry;
let world: TestFleet;
let node: Node;
beforeAll(async () => {
  [server, world] = await Promise.all([startDockerRegistry(), startTestFleet()]);
  registry = createRegistry(systemClock, { url: server.url });
  node = await world.newNode();
});
afterAll(async () => {
  await registry?.close();
  await world?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

let projectId = "";
let backupId = "";
let branch: Branch;
beforeEach(async () => {
  const { api } = world;
  const user = await api.newUser();
  projectId = (await api.newProject(user)).id;
  const id = randomUUID();
  const channel = "production" as const;
  await insertBranch(api.db, api.context.secrets, { id, projectId, channel, engine: "mariadb" });
  branch = await api.db
    .updateTable("database")
    .set({ status: "ready", node_id: node.id })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();
  await startServer(api.db, branch, await planOfUser(api.db, user.id), defaultDatabaseImages);
  await observe(await taskOf(id), { observed: "running", health: "healthy" });
  backupId = randomUUID();
  await insertBackup(api.db, { id: backupId, projectId, databaseId: id, channel, engine: "mariadb" });
});

const backup = () =>
  world.api.db.selectFrom("database_backup").selectAll().where("id", "=", backupId).executeTakeFirstOrThrow();
const tasksOf = (ownerId: string) =>
  world.api.db.selectFrom("task").selectAll().where("owner_id", "=", ownerId).orderBy("epoch").execute();
const taskOf = async (ownerId: string): Promise<Task> => {
  const [task, ...more] = await tasksOf(ownerId);
  expect(more).toEqual([]);
  if (task === undefined) throw new Error("there is no task");
  return task;
};

/** The worker, until it is done or waits for something. */
async function work(rows: BackupRows = backupRows(world.api.db)): Promise<WorkOutcome | "waits"> {
  const handler = backupWorker({ ...world.deps, rows, registry });
  const item = { id: 1, kind: "backup", key: "k", attempt: 1, maxAttempts: 20, ageMs: 60_000, payload: { backupId } };
  const outcome = await handler(item as never, new AbortController().signal);
  return "retryAfterMs" in outcome && outcome.error === undefined ? "waits" : outcome;
}

let said = 0;
async function observe({ id, epoch }: Task, change: Partial<ObservationValue>): Promise<void> {
  await world.api.db.updateTable("task").set({ node_id: node.id }).where("id", "=", id).execute();
  const value: ObservationValue = {
    ...{ placementId: id, epoch: Number(epoch), statusSeq: ++said, observed: "running", health: null, restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString(), ...change },
  };
  await world.put(keys.observation(node.id, id), value);
  await until("it to be seen", () => world.fleet.observation(node.id, id)?.statusSeq === value.statusSeq);
}

const push = async (size = 1_000) => {
  const stream = randomBytes(size);
  const { digest, sizeBytes } = await registry.pushArtifact(repositories.backup(projectId), { kind: "backup", stream });
  return { digest, sizeBytes, dumpBytes: 5_000 };
};

test("a backup is made where its server is, with the tenant's password, and complete once control has seen its file", async () => {
  expect(await work()).toBe("waits");
  const task = await taskOf(backupId);
  expect(task).toMatchObject({ kind: "backup", owner_kind: "backup", pinned_to: node.id, desired: "running" });
  const load = createPlacementLoader(systemClock, {
    ...{ db: world.api.db, secrets: world.api.context.secrets, registryHost: "registry.test" },
    ...{ baseImage: "", builderImage: "", buildCaBundle: "", gatePass: () => "" },
  });
  const password = openTenantPassword(world.api.context.secrets, branch);
  expect((await load(task.id))?.spec).toMatchObject({
    case: "backup",
    value: { databaseId: branch.id, engine: "mariadb", password, targetRepository: repositories.backup(projectId) },
  });
  expect(JSON.stringify(task.spec)).not.toContain(password);
  expect(await work()).toBe("waits");
  await observe(task, { observed: "running" });
  expect(await work()).toBe("waits");
  expect(await backup()).toMatchObject({ status: "running", ended_at: null });
  const file = await push();
  await observe(task, { observed: "completed", backup: file });
  expect(await work()).toEqual({ state: "done" });
  expect(await backup()).toMatchObject({
    ...{ status: "complete", error: null, digest: file.digest, size_bytes: 1_000, dump_bytes: 5_000 },
    ended_at: expect.any(Date),
  });
  expect(await taskOf(backupId)).toMatchObject({ desired: "removed" });
  // The server of the branch is nobody's task but its own.
  expect(await taskOf(branch.id)).toMatchObject({ kind: "database", desired: "running" });
  const [artifact] = await world.api.db.selectFrom("artifact").selectAll().where("id", "=", task.id).execute();
  expect(artifact).toMatchObject({ kind: "backup", digest: file.digest, ended_at: expect.any(Date) });
});

test.each(["complete", "failed"] as const)(
  "one that is deleted as soon as it is %s leaves nothing that is to run",
  async (status) => {
    await work();
    const task = await taskOf(backupId);
    const failure = { code: "BACKUP_FAILED", message: "permission denied", exitCode: 1, oomKilled: false };
    await observe(
      task,
      status === "failed" ? { observed: "failed", failure } : { observed: "completed", backup: await push() },
    );
    const rows = backupRows(world.api.db);
    // Whoever deletes it comes before the worker does anything more.
    const hasty: BackupRows = {
      ...rows,
      complete: async (...args) => (await rows.complete(...args)) && deleteBackup(world.api.db, backupId),
      fail: async (...args) => (await rows.fail(...args)) && deleteBackup(world.api.db, backupId),
    };
    expect(await work(hasty)).toEqual({ state: "done" });
    expect(await world.api.db.selectFrom("database_backup").select("id").where("id", "=", backupId).execute()).toEqual(
      [],
    );
    expect(await taskOf(backupId)).toMatchObject({ desired: "removed" });
  },
);

test("one that is asked for while the server is about to end is made by the next server", async () => {
  const { db } = world.api;
  const change = { kind: "move" as const, state: "copying" as const, requested_by: "svc", to_node: null };
  const id = randomUUID();
  await insertChange(db, branch, { ...change, id, copy_id: null, until: null, covered_at: null });
  await moveChange(db, id, "stopping");
  expect(await work()).toBe("waits");
  expect(await tasksOf(backupId)).toEqual([]);
  await endChange(db, id, null);
  expect(await work()).toBe("waits");
  expect(await taskOf(backupId)).toMatchObject({ kind: "backup" });
});

test("one that the schedule made takes the place of its own older ones, and of nobody else's", async () => {
  const { db } = world.api;
  const older = async (scheduled_keep: number | null, channel: "production" | "dev", hours: number) => {
    const id = randomUUID();
    const file = { repository: "svc/x/backup", digest: "sha256:x", size_bytes: 7, dump_bytes: 9 };
    const at = new Date(Date.now() - hours * 3_600_000);
    const of = { id, project_id: projectId, database_id: branch.id, channel, engine: "mariadb" as const };
    await db
      .insertInto("database_backup")
      .values({ ...of, ...file, status: "complete", created_at: at, ended_at: at, scheduled_keep })
      .execute();
    return id;
  };
  await saveSchedule(db, projectId, { channels: ["production"], keep: 2 });
  const [oldest, newer] = [await older(2, "production", 48), await older(2, "production", 24)];
  const [persons, other] = [await older(null, "production", 99), await older(2, "dev", 99)];
  await db.updateTable("database_backup").set({ scheduled_keep: 2 }).where("id", "=", backupId).execute();
  await work();
  await observe(await taskOf(backupId), { observed: "completed", backup: await push() });
  expect(await work()).toEqual({ state: "done" });
  const left = await db.selectFrom("database_backup").select("id").where("project_id", "=", projectId).execute();
  expect(left.map(({ id }) => id).toSorted()).toEqual([newer, persons, other, backupId].toSorted());
  expect(left).not.toContainEqual({ id: oldest });
});

describe("it fails, and says why", () => {
  const fails = async (why: RegExp): Promise<void> => {
    expect(await work()).toEqual({ state: "done" });
    expect(await backup()).toMatchObject({ status: "failed", error: expect.stringMatching(why), digest: null });
    for (const { desired } of await tasksOf(backupId)) expect(desired).toBe("removed");
  };
  const begun = async (): Promise<Task> => {
    expect(await work()).toBe("waits");
    const task = await taskOf(backupId);
    await observe(task, { observed: "running" });
    return task;
  };

  test("when the node could not read the database", async () => {
    const failure = { code: "BACKUP_FAILED", message: "permission denied for table t", exitCode: 1, oomKilled: false };
    await observe(await begun(), { observed: "failed", failure });
    await fails(/permission denied/);
  });

  test.each([
    { when: "is not there", change: { digest: `sha256:${"b".repeat(64)}` } },
    { when: "has another size", change: { sizeBytes: 20 } },
    { when: "has nothing in it", change: { dumpBytes: 0 } },
  ])("when what the node says that it pushed $when", async ({ change }) => {
    const task = await begun();
    await observe(task, { observed: "completed", backup: { ...(await push()), ...change } });
    await fails(/not in the registry/);
  });

  test("when the branch is dropped meanwhile", async () => {
    await begun();
    await world.api.db.updateTable("database").set({ status: "dropping" }).where("id", "=", branch.id).execute();
    await fails(/dropped/);
  });

  test("when two hours have passed, although a file comes then; another one may be begun", async () => {
    const task = await begun();
    await observe(task, { observed: "completed", backup: await push() });
    const created_at = new Date(Date.now() - 2 * 3_600_000 - 1);
    await world.api.db.updateTable("database_backup").set({ created_at }).where("id", "=", backupId).execute();
    await fails(/2 hours/);
    const next = { id: randomUUID(), projectId, databaseId: branch.id, channel: "dev", engine: "mariadb" } as const;
    expect(await insertBackup(world.api.db, next)).toBe(true);
  });
});

test("it waits for a server that is starting, and two workers ask for one task", async () => {
  const serverTask = await taskOf(branch.id);
  await observe(serverTask, { observed: "running", health: "starting" });
  expect(await work()).toBe("waits");
  expect(await tasksOf(backupId)).toEqual([]);
  await observe(serverTask, { observed: "running", health: "healthy" });
  await Promise.all([work(), work(), work()]);
  expect(await tasksOf(backupId)).toHaveLength(1);
});

test("it waits while the registry does not answer, and is not complete before", async () => {
  await work();
  const task = await taskOf(backupId);
  await observe(task, { observed: "completed", backup: await push() });
  await using away = createRegistry(systemClock, { url: "http://127.0.0.1:9", timeoutMs: 1_000 });
  const handler = backupWorker({ ...world.deps, rows: backupRows(world.api.db), registry: away });
  const item = { id: 1, kind: "backup", key: "k", attempt: 1, maxAttempts: 20, ageMs: 60_000, payload: { backupId } };
  await expect(handler(item as never, new AbortController().signal)).rejects.toThrow();
  expect((await backup()).status).toBe("pending");
  expect(await work()).toEqual({ state: "done" });
  expect((await backup()).status).toBe("complete");
});
