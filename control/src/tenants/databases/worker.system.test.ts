import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { type DatabaseEngine, defaultDatabaseImages } from "@svc/proto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keys, type ObservationValue } from "../../fleet/cluster/keys.ts";
import { openTenantPassword } from "../../fleet/databases/secrets.ts";
import { verifierOf } from "../../fleet/databases/verifier.ts";
import { startTestFleet, type TestFleet } from "../../fleet/nodes/testing.ts";
import type { Branch, Node, Project } from "../../stores/db/tables.ts";
import { until } from "../../stores/etcd/testing.ts";
import type { WorkOutcome } from "../../stores/work/queue.ts";
import { ServerUnreachable } from "./admin-sql.ts";
import { branchRows } from "./rows.ts";
import { beginRotation, doubted, dropBranches, insertBranch, retryBranch } from "./store.ts";
import { MemoryAdmin } from "./testing/memory-admin.ts";
import { databaseWorker } from "./worker.ts";

let world: TestFleet;
let node: Node;
beforeAll(async () => {
  world = await startTestFleet();
  node = await world.newNode();
});
afterAll(() => world?.[Symbol.asyncDispose]());

let project: Project;
let id = "";
let admin: MemoryAdmin;
const begin = async (engine: DatabaseEngine) => {
  const { api } = world;
  project = await api.newProject(await api.newUser());
  id = randomUUID();
  admin = new MemoryAdmin(engine, id);
  await insertBranch(api.db, api.context.secrets, { id, projectId: project.id, channel: "production", engine });
};
beforeEach(() => begin("postgres"));

const branch = async (): Promise<Branch | undefined> =>
  world.api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirst();
const servers = () => world.api.db.selectFrom("task").selectAll().where("owner_id", "=", id).orderBy("epoch").execute();

/** The worker, until it is done or would wait for something. */
async function work(): Promise<WorkOutcome | "waits"> {
  const { deps, api, fleet } = world;
  const stop = new AbortController();
  const item = {
    ...{ id: 1, kind: "database", key: id, attempt: 1, maxAttempts: 20, ageMs: 20_000 },
    payload: { databaseId: id },
  };
  const openLine = async () => new PassThrough();
  const handler = databaseWorker({
    ...deps,
    fleet,
    secrets: api.context.secrets,
    openLine,
    admin,
    // What it waits for is told by the test: it does not hold its place.
    holdMs: 0,
    rows: branchRows(api.db, defaultDatabaseImages),
  });
  const outcome = await handler(item as never, stop.signal);
  return "retryAfterMs" in outcome && outcome.error === undefined ? "waits" : outcome;
}

/** Its newest server is on the node and says this of itself. */
async function observe(change: Partial<ObservationValue>): Promise<string> {
  const task = (await servers()).at(-1);
  const placementId = task?.id ?? "";
  await world.api.db.updateTable("task").set({ node_id: node.id }).where("id", "=", placementId).execute();
  const value: ObservationValue = {
    ...{ placementId, epoch: Number(task?.epoch), statusSeq: 1, observed: "running", health: "healthy", restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString(), ...change },
  };
  await world.put(keys.observation(node.id, placementId), value);
  await until("it to be seen", () => world.fleet.observation(node.id, placementId)?.observed === value.observed);
  return placementId;
}
const reap = (taskId: string) =>
  world.api.db.updateTable("task").set({ reaped_at: new Date() }).where("id", "=", taskId).execute();

test.each(["postgres", "mariadb"] as const)("a branch of %s is ready once its tenant has logged in", async (engine) => {
  await begin(engine);
  expect(await work()).toBe("waits");
  expect(await servers()).toMatchObject([
    { kind: "database", owner_kind: "database", desired: "running", pinned_to: null, spec: { engine, init: true } },
  ]);
  await observe({});
  admin.isAway = true;
  expect(await work()).toMatchObject({ error: "it is away" });
  expect(await branch()).toMatchObject({ status: "provisioning", node_id: node.id });
  admin.isAway = false;
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "ready", reason: null });
  expect(await servers()).toHaveLength(1);
});

test("a server that fails is an error with its reason, and the next try is where the data is", async () => {
  await work();
  const failure = { code: "DATABASE_CRASH_LOOP", message: "The app kept exiting.", exitCode: 1, oomKilled: false };
  const taskId = await observe({ observed: "failed", health: null, failure });
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({
    status: "error",
    reason: "The database server did not start: it kept exiting.",
  });
  expect(await servers()).toMatchObject([{ desired: "removed" }]);
  await reap(taskId);
  await retryBranch(world.api.db, id);
  await work();
  // Nobody can have had anything there yet.
  expect((await servers()).at(-1)).toMatchObject({ pinned_to: node.id, spec: { init: true } });
});

test("a rotation reaches the server, and then is the password of the branch", async () => {
  const { api } = world;
  await work();
  await observe({});
  await work();
  await beginRotation(api.db, api.context.secrets, id);
  admin.isAway = true;
  await work();
  const pending = await branch();
  expect(pending?.pending_secret).not.toBeNull();
  admin.isAway = false;
  expect(await work()).toEqual({ state: "done" });
  const now = await branch();
  expect(now).toMatchObject({ status: "ready", pending_secret: null });
  const password = now && openTenantPassword(api.context.secrets, now);
  expect([...admin.roles.values()]).toEqual([verifierOf("postgres", id, password ?? "")]);
  expect(admin.ended).toBe(1);
});

test("a branch whose data is gone is an error that says so, also when it was in use", async () => {
  await work();
  await observe({});
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "ready" });
  const failure = { code: "DATABASE_DATA_MISSING", message: "The data is not there.", exitCode: 77, oomKilled: false };
  await observe({ statusSeq: 2, observed: "failed", health: null, failure });
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "error", reason: expect.stringMatching(/not there.*db restore/) });
  expect(await servers()).toMatchObject([{ desired: "removed" }]);
});

const isFull = { code: "DATABASE_CRASH_LOOP", message: "Its disk is full.", exitCode: 1, oomKilled: false };

test("a database in use whose servers end one after another gets the next ever later, until one serves", async () => {
  await work();
  await observe({});
  await work();
  /** Its newest server was asked for so long ago. */
  const wasAsked = (secondsAgo: number) =>
    world.api.db
      .updateTable("task")
      .set({ created_at: new Date(Date.now() - secondsAgo * 1_000) })
      .where("owner_id", "=", id)
      .where("reaped_at", "is", null)
      .execute();
  for (const seconds of [30, 60, 120]) {
    const taskId = await observe({ statusSeq: 2, observed: "failed", health: null, failure: isFull });
    await wasAsked(seconds - 30);
    expect(await work()).toBe("waits");
    expect((await servers()).at(-1)).toMatchObject({ id: taskId, desired: "running" });
    await wasAsked(seconds + 1);
    expect(await work()).toBe("waits");
    expect((await servers()).at(-1)).toMatchObject({ id: taskId, desired: "removed" });
    await reap(taskId);
    expect(await work()).toBe("waits");
    expect((await servers()).at(-1)).toMatchObject({ desired: "running", pinned_to: node.id });
  }
  await observe({});
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "ready", server_failures: 0 });
});

test("a database in use whose server falls over is known to be down until it serves again", async () => {
  await work();
  await observe({});
  await work();
  await observe({ statusSeq: 2, health: "backoff", failure: isFull });
  expect(await work()).toBe("waits");
  expect(await branch()).toMatchObject({ status: "ready", server_failures: 1 });
  await observe({ statusSeq: 3, health: "starting" });
  expect(await work()).toBe("waits");
  expect(await servers()).toMatchObject([{ desired: "running" }]);
  await observe({ statusSeq: 4 });
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "ready", server_failures: 0 });
});

test("a suspension ends the server, and a resumption starts another where the data is", async () => {
  const suspend = (suspended_at: Date | null) =>
    world.api.db
      .updateTable("project")
      .set({ suspended_at, suspend_reason: suspended_at && "admin" })
      .where("id", "=", project.id)
      .execute();
  await work();
  const taskId = await observe({});
  await work();
  await suspend(new Date());
  expect(await work()).toEqual({ state: "done" });
  expect(await servers()).toMatchObject([{ desired: "removed" }]);
  expect(await branch()).toMatchObject({ status: "ready" });
  await suspend(null);
  expect(await work()).toBe("waits");
  await reap(taskId);
  await work();
  expect((await servers()).at(-1)).toMatchObject({ desired: "running", pinned_to: node.id, spec: { init: false } });
});

test("a dropped branch is absent once its server is gone, and its volume is kept in mind", async () => {
  await work();
  const taskId = await observe({});
  await work();
  const volumes = () => world.api.db.selectFrom("database_volume").selectAll().where("database_id", "=", id).execute();
  expect(await volumes()).toMatchObject([{ generation: 1, node_id: node.id, state: "current", purge_at: null }]);
  await dropBranches(world.api.db, [project.id]);
  await world.api.db.updateTable("database").set({ status_at: new Date() }).where("id", "=", id).execute();
  const stop = work();
  await until("it to be asked to go", async () => (await servers())[0]?.desired === "removed");
  await stop;
  await reap(taskId);
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toBeUndefined();
  const kept = await world.api.db.selectFrom("dropped_database").selectAll().where("id", "=", id).execute();
  expect(kept).toMatchObject([{ project_id: project.id, owner_id: project.owner_id, node_id: node.id }]);
  expect(await volumes()).toMatchObject([
    { generation: 1, node_id: node.id, state: "dropped", purge_at: expect.any(Date) },
  ]);
});

test("a login of before somebody doubted the tenant makes nothing ready", async () => {
  await work();
  await observe({});
  const { api } = world;
  const proveLogin = admin.proveLogin.bind(admin);
  let asked = 0;
  admin.proveLogin = async (target, login) => {
    const isLetIn = await proveLogin(target, login);
    // The first time, another worker finds out meanwhile that it has brought an old password.
    if (++asked === 1) await api.db.updateTable("database").set(doubted).where("id", "=", id).execute();
    expect(await branch()).toMatchObject({ status: "provisioning" });
    return isLetIn;
  };
  expect(await work()).toEqual({ state: "done" });
  expect(asked).toBe(2);
  expect(await branch()).toMatchObject({ status: "ready", tenant_doubts: 1 });
});

test("an old password that was cut off on its way to the server is replaced, since it may have arrived", async () => {
  const { api } = world;
  await work();
  await observe({});
  const createTenant = admin.createTenant.bind(admin);
  admin.createTenant = async (target, tenant) => {
    admin.createTenant = createTenant;
    // Another worker has this one's place, and is done; then its owner replaces the password.
    await work();
    await beginRotation(api.db, api.context.secrets, id);
    await work();
    await createTenant(target, tenant);
    throw new ServerUnreachable("no answer came");
  };
  await work();
  expect(await branch()).toMatchObject({ status: "ready", tenant_at: null });
  expect(await work()).toEqual({ state: "done" });
  const now = await branch();
  const password = now && openTenantPassword(api.context.secrets, now);
  expect([...admin.roles.values()]).toEqual([verifierOf("postgres", id, password ?? "")]);
});

test("a lost machine is an error that says so", async () => {
  await work();
  const lost = await world.newNode({ lifecycle: "fenced", schedulable: false });
  await world.api.db.updateTable("database").set({ node_id: lost.id }).where("id", "=", id).execute();
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ status: "error", reason: expect.stringMatching(/declared lost/) });
});

test("a branch that is full has a server that nobody writes to, and one that takes a password only while it has to", async () => {
  const { api } = world;
  const decide = (read_only: boolean) =>
    api.db.updateTable("database").set({ read_only }).where("id", "=", id).execute();
  /** The server that is there is asked to go; whether its successor is read-only. */
  const next = async () => {
    expect(await work()).toBe("waits");
    const before = (await servers()).at(-1);
    expect(before?.desired).toBe("removed");
    await reap(before?.id ?? "");
    expect(await work()).not.toMatchObject({ error: expect.anything() });
    expect((await servers()).at(-1)).toMatchObject({ desired: "running", pinned_to: node.id });
    await observe({});
    return ((await servers()).at(-1)?.spec as { readOnly: boolean } | undefined)?.readOnly;
  };
  await work();
  await observe({});
  await work();
  await decide(true);
  expect(await next()).toBe(true);
  expect(await work()).toEqual({ state: "done" });
  await beginRotation(api.db, api.context.secrets, id);
  expect(await next()).toBe(false);
  expect((await branch())?.pending_secret).not.toBeNull();
  expect(await next()).toBe(true);
  const now = await branch();
  expect(now).toMatchObject({ status: "ready", pending_secret: null, read_only: true });
  expect([...admin.roles.values()]).toEqual([
    verifierOf("postgres", id, now ? openTenantPassword(api.context.secrets, now) : ""),
  ]);
  await decide(false);
  expect(await next()).toBe(false);
  expect(await work()).toEqual({ state: "done" });
});

test("a full branch whose read-only server takes a password is not started again for one", async () => {
  const { api } = world;
  await begin("mariadb");
  await work();
  await observe({});
  await work();
  await api.db.updateTable("database").set({ read_only: true }).where("id", "=", id).execute();
  await work();
  await reap((await servers()).at(-1)?.id ?? "");
  await work();
  await observe({});
  await beginRotation(api.db, api.context.secrets, id);
  expect(await work()).toEqual({ state: "done" });
  expect(await branch()).toMatchObject({ pending_secret: null });
  expect(await servers()).toMatchObject([{ desired: "removed" }, { desired: "running", spec: { readOnly: true } }]);
});
