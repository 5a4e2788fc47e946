import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { defaultDatabaseImages } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keys, type ObservationValue } from "../../../fleet/cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../../../fleet/nodes/testing.ts";
import type { TestUser } from "../../../http/testing.ts";
import type { Branch, Node, Project } from "../../../stores/db/tables.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { deleteRows } from "../../projects/teardown/worker.ts";
import { changeRows } from "../changes/rows.ts";
import { changeWorker } from "../changes/worker.ts";
import { branchRows } from "../rows.ts";
import { beginRotation, buryBranch, dropBranches, lockBranch } from "../store.ts";
import { newBranch } from "../testing/branch.ts";
import { MemoryAdmin } from "../testing/memory-admin.ts";
import { forgetVolumes } from "../volumes/forget.ts";
import { databaseWorker } from "../worker.ts";

let world: TestFleet;
let operator: TestUser;
let owner: TestUser;
let [here, there]: Node[] = [];
let project: Project;
let id = "";
let admin: MemoryAdmin;
beforeAll(async () => {
  world = await startTestFleet();
  operator = await world.api.newUser({ admin: true });
  owner = await world.api.newUser();
});
afterAll(() => world?.[Symbol.asyncDispose]());
beforeEach(async () => {
  const { api } = world;
  [here, there] = [await world.newNode(), await world.newNode()];
  project = await api.newProject(owner);
  id = await newBranch(api, project);
  admin = new MemoryAdmin("postgres", id);
  await set({ node_id: here?.id ?? "", role_connection_limit: 20, keeper_secret: Buffer.from("sealed") });
});

const set = (values: object) => world.api.db.updateTable("database").set(values).where("id", "=", id).execute();
const branch = (): Promise<Branch | undefined> =>
  world.api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirst();
const dropped = () => world.api.db.selectFrom("dropped_database").selectAll().where("id", "=", id).executeTakeFirst();
const volume = () =>
  world.api.db.selectFrom("database_volume").selectAll().where("database_id", "=", id).executeTakeFirstOrThrow();
const servers = () =>
  world.api.db.selectFrom("task").selectAll().where("owner_id", "=", id).where("reaped_at", "is", null).execute();
const ask = (databaseId = id) =>
  world.api.call("POST", `/admin/databases/${databaseId}/undrop`, { session: operator.session });
const refusal = async (databaseId = id) => {
  const { body } = await ask(databaseId);
  return [body.error.code, body.error.message];
};

const drop = () =>
  world.api.db.transaction().execute(async (tx) => {
    const held = await lockBranch(tx, id);
    if (held !== null) await buryBranch(tx, held, { nodeId: here?.id ?? "", keptHours: 72 });
  });
const lose = (node: Node | undefined) =>
  world.api.db
    .updateTable("node")
    .set({ lifecycle: "fenced" })
    .where("id", "=", node?.id ?? "")
    .execute();
const age = (hours: number) =>
  sql`update database_volume set purge_at = purge_at - ${hours} * interval '1 hour' where database_id = ${id}`.execute(
    world.api.db,
  );
/** A copy of it on the other machine, which covers until a moment ago. */
async function copy(): Promise<string> {
  const at = new Date(Date.now() - 1_000);
  const { id: copyId } = await world.api.db
    .insertInto("database_copy")
    .values({
      ...{ id: randomUUID(), database_id: id, engine: "postgres", project_id: project.id, channel: "production" },
      ...{ generation: 1, node_id: there?.id ?? "", state: "following", covered_at: at },
      bases: JSON.stringify([{ number: 1, at: at.toISOString(), bytes: 1 }]),
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  return copyId;
}

const parts = () => ({
  ...{ ...world.deps, secrets: world.api.context.secrets, openLine: async () => new PassThrough(), admin },
});
const item = (payload: object) =>
  ({ ...{ id: 1, kind: "", key: id, attempt: 1, maxAttempts: 20, ageMs: 200_000 }, payload }) as never;
/** What it waits for is told by the test: a branch that is old enough does not hold the worker. */
async function workOnBranch(): Promise<void> {
  await set({ status_at: new Date(Date.now() - 20_000) });
  const rows = branchRows(world.api.db, defaultDatabaseImages);
  await databaseWorker({ ...parts(), rows })(item({ databaseId: id }), new AbortController().signal);
}
async function serve(): Promise<void> {
  const task = (await servers()).at(-1);
  const [placementId, nodeId] = [task?.id ?? "", task?.pinned_to ?? ""];
  await world.api.db.updateTable("task").set({ node_id: nodeId }).where("id", "=", placementId).execute();
  const value: ObservationValue = {
    ...{ placementId, epoch: Number(task?.epoch), statusSeq: 1, observed: "running", health: "healthy", restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString() },
  };
  await world.put(keys.observation(nodeId, placementId), value);
  await until("it to be seen", () => world.fleet.observation(nodeId, placementId)?.observed === "running");
}

test("a branch comes back with its id and its passwords, from its volume where that is", async () => {
  await beginRotation(world.api.db, world.api.context.secrets, id);
  await set({ volume_bytes: 4_096, read_only: true });
  const before = await branch();
  await drop();
  expect([await branch(), await volume()]).toMatchObject([undefined, { state: "dropped", bytes: 4_096 }]);
  expect(await ask()).toMatchObject({
    status: 202,
    body: { databaseId: id, channel: "production", engine: "postgres", from: "volume", change: null, coveredAt: null },
  });
  const kept = ["id", "project_id", "channel", "engine", "node_id", "generation", "role_connection_limit"] as const;
  const sealed = ["admin_secret", "secret", "pending_secret", "keeper_secret", "read_only", "created_at"] as const;
  const now = await branch();
  for (const column of [...kept, ...sealed]) expect(now?.[column], column).toEqual(before?.[column]);
  expect(now).toMatchObject({ status: "provisioning", tenant_at: null, keeper_at: null });
  expect([await dropped(), await volume()]).toMatchObject([undefined, { state: "current", purge_at: null }]);
  await set({ read_only: false });
  await workOnBranch();
  // It has data, or it has nothing: it is never made anew.
  expect(await servers()).toMatchObject([{ pinned_to: here?.id, spec: { init: false, restore: null, generation: 1 } }]);
  await serve();
  await workOnBranch();
  expect(await branch()).toMatchObject({ status: "ready", pending_secret: null });
});

test("asked by two at once, it comes back once", async () => {
  await drop();
  const answers = await Promise.all([ask(), ask()]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 409]);
  expect(await refusal()).toEqual(["CONFLICT", expect.stringMatching(/back already/)]);
});

test("a branch whose machine is lost comes back from its copy", async () => {
  const copyId = await copy();
  await drop();
  await lose(here);
  const answer = await ask();
  expect(answer).toMatchObject({
    status: 202,
    body: { from: "copy", coveredAt: expect.any(String), change: { kind: "restore", copyId, to: { id: there?.id } } },
  });
  // Whoever brings branches up leaves it to the restore.
  await workOnBranch();
  expect([await branch(), await servers()]).toMatchObject([{ status: "provisioning" }, []]);
  const stop = new AbortController();
  const rows = changeRows(world.api.db, defaultDatabaseImages);
  const working = changeWorker({ ...parts(), rows })(item({ changeId: answer.body.change.id }), stop.signal);
  await until("its server is asked for", async () => (await servers()).length > 0);
  stop.abort();
  await working;
  expect(await branch()).toMatchObject({ generation: 2, node_id: there?.id });
  expect(await servers()).toMatchObject([{ pinned_to: there?.id, spec: { restore: { copyId, until: null } } }]);
});

test("it comes back for 72 hours, and its passwords go with its volume", async () => {
  await drop();
  await age(71);
  await forgetVolumes(world.api.db);
  expect(await dropped()).toMatchObject({ admin_secret: expect.any(Buffer), secret: expect.any(Buffer) });
  await age(2);
  expect(await refusal()).toEqual(["CONFLICT", expect.stringMatching(/Neither/)]);
  await forgetVolumes(world.api.db);
  expect(await dropped()).toMatchObject({
    admin_secret: null,
    secret: null,
    pending_secret: null,
    keeper_secret: null,
  });
});

test("passwords stay while a copy is kept that it could come back from", async () => {
  await copy();
  await drop();
  await age(73);
  await forgetVolumes(world.api.db);
  expect(await dropped()).toMatchObject({ secret: expect.any(Buffer) });
  expect(await ask()).toMatchObject({ status: 202, body: { from: "copy" } });
});

test("a branch that has a successor comes back once that one is dropped, and both are remembered", async () => {
  await drop();
  const first = id;
  id = await newBranch(world.api, project);
  expect(await refusal(first)).toEqual(["CONFLICT", expect.stringMatching(/dropped first/)]);
  await set({ node_id: here?.id ?? "" });
  await dropBranches(world.api.db, [project.id]);
  expect(await refusal(first)).toEqual(["CONFLICT", expect.stringMatching(/being dropped/)]);
  expect(await refusal()).toEqual(["DATABASE_NOT_READY", expect.stringMatching(/being dropped/)]);
  await drop();
  expect(await ask(first)).toMatchObject({ status: 202 });
  expect(await dropped()).toMatchObject({ id });
});

test("the branches of a deleted project do not come back, and nothing of their passwords is left", async () => {
  await drop();
  expect((await world.api.call("DELETE", `/projects/${project.id}`, { session: owner.session })).status).toBe(200);
  expect(await refusal()).toEqual(["CONFLICT", expect.stringMatching(/project was deleted/)]);
  await world.api.db.transaction().execute((tx) => deleteRows(tx, project.id));
  expect(await dropped()).toMatchObject({
    admin_secret: null,
    secret: null,
    pending_secret: null,
    keeper_secret: null,
  });
  expect(await refusal()).toEqual(["CONFLICT", expect.stringMatching(/project was deleted/)]);
  expect(await volume()).toMatchObject({ state: "dropped", purge_at: expect.any(Date) });
});

test("nobody remembers what was never there", async () => {
  expect(await refusal(randomUUID())).toEqual(["NOT_FOUND", expect.any(String)]);
});
