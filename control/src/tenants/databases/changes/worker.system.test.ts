import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { databaseVolume, defaultDatabaseImages } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keys, type ObservationValue } from "../../../fleet/cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../../../fleet/nodes/testing.ts";
import type { TestUser } from "../../../http/testing.ts";
import type { Branch, Change, Node } from "../../../stores/db/tables.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { insertBackup } from "../backups/store.ts";
import { beginCopy } from "../copies/store.ts";
import { branchRows } from "../rows.ts";
import { insertBranch, lockBranch } from "../store.ts";
import { MemoryAdmin } from "../testing/memory-admin.ts";
import { upgradeServers } from "../upgrades/round.ts";
import { databaseWorker } from "../worker.ts";
import { moveFromDraining } from "./drain.ts";
import { changeEffects } from "./effects.ts";
import { foundChange } from "./facts.ts";
import { changeRows } from "./rows.ts";
import { changeWorker } from "./worker.ts";

let world: TestFleet;
let [here, there]: Node[] = [];
let operator: TestUser;
let owner: TestUser;
let projectId = "";
let id = "";
let admin: MemoryAdmin;
beforeAll(async () => {
  world = await startTestFleet();
  operator = await world.api.newUser({ admin: true });
  owner = await world.api.newUser();
});
afterAll(() => world?.[Symbol.asyncDispose]());

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000);
const set = (values: object) => world.api.db.updateTable("database").set(values).where("id", "=", id).execute();
const branch = (): Promise<Branch> =>
  world.api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const change = (): Promise<Change> =>
  world.api.db
    .selectFrom("database_change")
    .selectAll()
    .where("database_id", "=", id)
    .orderBy("created_at", "desc")
    .limit(1)
    .executeTakeFirstOrThrow();
const servers = () => world.api.db.selectFrom("task").selectAll().where("owner_id", "=", id).orderBy("epoch").execute();
const copies = () => world.api.db.selectFrom("database_copy").selectAll().where("database_id", "=", id).execute();

const parts = () => ({
  ...{ ...world.deps, secrets: world.api.context.secrets, openLine: async () => new PassThrough(), admin },
  rows: changeRows(world.api.db, defaultDatabaseImages),
});

const item = (payload: object) =>
  ({ ...{ id: 1, kind: "", key: id, attempt: 1, maxAttempts: 20, ageMs: 200_000 }, payload }) as never;

/** The worker, until it is done or would wait for what the test has to say. */
async function workOnChange(): Promise<void> {
  const stop = new AbortController();
  const clock: Clock = Object.create(systemClock, {
    after: {
      value: (ms: number, act: () => void) => {
        stop.abort();
        return systemClock.after(ms, act);
      },
    },
  });
  await changeWorker({ ...parts(), clock })(item({ changeId: (await change()).id }), stop.signal);
}
/** What it waits for is told by the test: work that is old enough does not hold its place. */
async function workOnBranch(): Promise<void> {
  const rows = branchRows(world.api.db, defaultDatabaseImages);
  await databaseWorker({ ...parts(), rows })(item({ databaseId: id }), new AbortController().signal);
}

/** Its newest server is where it should be, and serves. */
async function serve(): Promise<void> {
  const task = (await servers()).at(-1);
  const nodeId = task?.pinned_to ?? here?.id ?? "";
  const placementId = task?.id ?? "";
  await world.api.db.updateTable("task").set({ node_id: nodeId }).where("id", "=", placementId).execute();
  const value: ObservationValue = {
    ...{ placementId, epoch: Number(task?.epoch), statusSeq: 1, observed: "running", health: "healthy", restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString() },
  };
  await world.put(keys.observation(nodeId, placementId), value);
  await until("it to be seen", () => world.fleet.observation(nodeId, placementId)?.observed === "running");
}
const endServer = async () => {
  const [server] = await servers();
  expect(server?.desired).toBe("removed");
  await world.api.db
    .updateTable("task")
    .set({ reaped_at: new Date() })
    .where("id", "=", server?.id ?? "")
    .execute();
};
const follow = (values: object = {}) =>
  world.api.db
    .updateTable("database_copy")
    .set({
      ...{ state: "following", node_id: there?.id ?? "", covered_at: ago(1), position: "0/3000000" },
      bases: JSON.stringify([{ number: 1, at: ago(3_600).toISOString(), bytes: 1 }]),
      ...values,
    })
    .where("database_id", "=", id)
    .execute();
const changesOf = () => world.api.db.selectFrom("database_change").selectAll().where("database_id", "=", id).execute();
const ask = (action: string, body?: object) =>
  world.api.call("POST", `/admin/databases/${id}/${action}`, { session: operator.session, ...(body && { body }) });

beforeEach(async () => {
  const { api } = world;
  [here, there] = [await world.newNode(), await world.newNode()];
  const capacity = JSON.stringify({ memoryMb: 4_096, cpuMillicores: 4_000, pids: 8_192, diskMb: 0 });
  await api.db.updateTable("node").set({ capacity }).where("role", "=", "node").execute();
  const project = await api.newProject(owner);
  projectId = project.id;
  id = randomUUID();
  admin = new MemoryAdmin("postgres", id);
  await insertBranch(api.db, api.context.secrets, { id, projectId, channel: "production", engine: "postgres" });
  await set({ status_at: ago(20) });
  await workOnBranch();
  await serve();
  await workOnBranch();
  expect(await branch()).toMatchObject({ status: "ready", node_id: here?.id, generation: 1 });
  await set({ tenant_at: ago(60) });
});
const beginKeeper = async () => {
  await world.api.db.transaction().execute(async (tx) => {
    const locked = await lockBranch(tx, id);
    if (locked !== null) await beginCopy(tx, locked, { purpose: "keeper", nodeId: there?.id ?? "" });
  });
  await follow();
};

test("a move makes a copy, keeps the tenant out until it has everything, and lets it in on the other machine", async () => {
  expect(await ask("move", { to: there?.id })).toMatchObject({ status: 202, body: { coveredAt: null } });
  await workOnChange();
  expect(await copies()).toMatchObject([{ purpose: "move", node_id: there?.id, generation: 1 }]);
  expect(admin.isFrozen).toBe(false);
  await follow();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "stopping", frozen_position: "0/3000148", freezes: 1 });
  expect(admin.isFrozen).toBe(true);
  // On a machine that is cordoned by now it would not come up again.
  const cordon = (schedulable: boolean) =>
    world.api.db
      .updateTable("node")
      .set({ schedulable })
      .where("id", "=", here?.id ?? "")
      .execute();
  await cordon(false);
  expect((await ask("cancel")).body.error).toMatchObject({
    ...{ code: "CONFLICT", message: expect.stringContaining("takes no other one") },
  });
  await cordon(true);
  // Nobody else brings its server up, or uses it, meanwhile.
  await workOnBranch();
  expect(await servers()).toHaveLength(1);
  const refused = await world.api.call("POST", `/projects/${projectId}/database/rotate-credentials`, owner);
  expect([refused.status, refused.body.error]).toMatchObject([
    409,
    { message: expect.stringContaining("being moved") },
  ]);

  await endServer();
  await workOnChange();
  expect((await servers()).at(-1)).toMatchObject({
    ...{ pinned_to: there?.id, desired: "running" },
    spec: { generation: 2, init: false, restore: { copyId: (await copies())[0]?.id, until: null } },
  });
  expect(await copies()).toMatchObject([{ state: "ended" }]);
  // Moments of before the move are in it alone.
  const [left] = await copies();
  expect(Number(left?.purge_at) - Number(left?.ended_at)).toBeGreaterThan(167 * 3_600_000);
  const volumes = world.api.db.selectFrom("database_volume").selectAll().where("database_id", "=", id);
  expect(await volumes.orderBy("generation").execute()).toMatchObject([
    { generation: 1, node_id: here?.id, state: "salvage", purge_at: expect.any(Date) },
    { generation: 2, node_id: there?.id, state: "current", purge_at: null },
  ]);
  await serve();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "done", problem: null });
  expect(await branch()).toMatchObject({ status: "ready", node_id: there?.id, generation: 2 });
  expect(admin.isFrozen).toBe(false);
  const shown = await world.api.call("GET", `/admin/databases/${id}`, operator);
  expect(shown.body.database).toMatchObject({
    ...{ generation: 2, node: { id: there?.id }, changes: [{ state: "done", blockedMs: expect.any(Number) }] },
    volumes: [{ generation: 2 }, { generation: 1 }],
  });
});

test("a copy that does not get there in time lets the tenant in again, and the move is tried later", async () => {
  await beginKeeper();
  expect(await ask("move")).toMatchObject({ status: 202, body: { change: { to: { id: there?.id } } } });
  admin.isCopied = false;
  await workOnChange();
  expect(await change()).toMatchObject({ state: "draining" });
  expect(admin.isFrozen).toBe(true);
  await world.api.db
    .updateTable("database_change")
    .set({ frozen_at: ago(11) })
    .where("database_id", "=", id)
    .execute();
  await workOnChange();
  expect(admin.isFrozen).toBe(false);
  expect(await change()).toMatchObject({ freezes: 1, undoing: null, frozen_at: null, frozen_position: null });
  expect(await branch()).toMatchObject({ status: "ready", generation: 1 });
  expect((await servers()).map(({ desired }) => desired)).toEqual(["running"]);
});

test("a move that is cancelled leaves everything as it was", async () => {
  await ask("move", { to: there?.id });
  await workOnChange();
  expect(await ask("cancel")).toMatchObject({ status: 202 });
  await workOnChange();
  expect(await change()).toMatchObject({ state: "failed", problem: "It was cancelled." });
  expect(await copies()).toMatchObject([{ state: "ended" }]);
  expect((await ask("cancel")).body.error.code).toBe("CONFLICT");
});

test("a database whose machine is lost is restored from its copy, and says before what that covers", async () => {
  await beginKeeper();
  await world.api.db
    .updateTable("node")
    .set({ lifecycle: "fenced" })
    .where("id", "=", here?.id ?? "")
    .execute();
  await workOnBranch();
  expect(await branch()).toMatchObject({ status: "error", reason: expect.stringContaining("svc admin db restore") });
  const asked = await ask("restore");
  expect(asked.body.error).toMatchObject({ code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" });
  const begun = await ask("restore", { confirm: true });
  expect(begun).toMatchObject({ status: 202, body: { coveredAt: (await copies())[0]?.covered_at?.toISOString() } });
  expect((await ask("restore", { confirm: true })).body.error.code).toBe("CONFLICT");
  await workOnChange();
  // As far as anybody knows its server may still write.
  expect((await change()).state).toBe("stopping");
  await endServer();
  await workOnChange();
  expect(await branch()).toMatchObject({ status: "provisioning", generation: 2, node_id: there?.id });
  expect((await ask("cancel")).body.error.code).toBe("CONFLICT");
  await serve();
  await workOnChange();
  expect(await branch()).toMatchObject({ status: "ready", reason: null });
});

/** A move until its next server is asked for. */
async function moveToSwitch(): Promise<void> {
  await beginKeeper();
  await ask("move");
  await workOnChange();
  await endServer();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "restoring" });
}

test("a move that does not come up leaves what it came out of, and the volume of before, for a week", async () => {
  await moveToSwitch();
  await world.api.db
    .updateTable("database_change")
    .set({ state_at: ago(13 * 3_600) })
    .where("database_id", "=", id)
    .execute();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "failed" });
  expect(await branch()).toMatchObject({ status: "error", reason: expect.stringContaining("could not be restored") });
  const volume = await world.api.db
    .selectFrom("database_volume")
    .select("purge_at")
    .where("database_id", "=", id)
    .where("generation", "=", 1)
    .executeTakeFirstOrThrow();
  const inSixDays = Date.now() + 6 * 86_400_000;
  for (const purgeAt of [volume.purge_at, (await copies())[0]?.purge_at])
    expect(purgeAt?.getTime()).toBeGreaterThan(inSixDays);
});

test("a machine that takes no new work by now takes no database either, and the database serves where it is", async () => {
  await beginKeeper();
  await ask("move");
  await world.api.db
    .updateTable("node")
    .set({ schedulable: false })
    .where("id", "=", there?.id ?? "")
    .execute();
  await workOnChange();
  expect(admin.isFrozen).toBe(false);
  await world.api.db
    .updateTable("database_change")
    .set({ state_at: ago(3_600) })
    .where("database_id", "=", id)
    .execute();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "failed", problem: expect.stringContaining("cordoned") });
  expect(await ask("restore", { confirm: true })).toMatchObject({ status: 202 });
  await workOnChange();
  expect(await change()).toMatchObject({ kind: "restore", state: "failed" });
  expect(await servers()).toMatchObject([{ desired: "running" }]);
});

test("a database that became read-only while it was copied stays where it is, and nobody is kept out", async () => {
  await beginKeeper();
  await ask("move");
  await set({ read_only: true, read_only_soft: null });
  await workOnChange();
  expect(admin.isFrozen).toBe(false);
  expect(await change()).toMatchObject({ state: "failed", problem: expect.stringContaining("read-only") });
});

test("a database that is dropped at the last moment before its next volume is buried with the one that it has", async () => {
  await beginKeeper();
  await ask("move");
  await workOnChange();
  await endServer();
  const row = await parts().rows.find((await change()).id);
  await set({ status: "dropping" });
  if (row !== null)
    await changeEffects(parts())(foundChange(row, world.fleet), { do: "switch" }, new AbortController().signal);
  expect(await branch()).toMatchObject({ generation: 1, node_id: here?.id });
  await workOnChange();
  expect(await change()).toMatchObject({ state: "failed", problem: "The database was dropped." });
});

test("a database goes back to a volume that it had before, and the next one is one that never was", async () => {
  const { db } = world.api;
  const newest = async () => (await servers()).at(-1);
  const end = async () =>
    void (await db
      .updateTable("task")
      .set({ reaped_at: new Date() })
      .where("owner_id", "=", id)
      .where("desired", "=", "removed")
      .execute());
  /** Asks, ends what there is, and brings the next one up. */
  const through = async (body: object) => {
    expect(await ask("restore", { ...body, confirm: true })).toMatchObject({ status: 202 });
    await workOnChange();
    await end();
    await workOnChange();
    await serve();
    await workOnChange();
    expect(await change()).toMatchObject({ state: "done", problem: null });
  };
  await beginKeeper();
  await through({});
  expect(await branch()).toMatchObject({ generation: 2, node_id: there?.id });
  const volume = databaseVolume(id, 1);
  expect((await ask("restore", { volume })).body.error).toMatchObject({ code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" });
  expect((await ask("restore", { volume: databaseVolume(id, 2), confirm: true })).body.error.code).toBe("CONFLICT");
  expect((await ask("restore", { volume, node: here?.id, confirm: true })).body.error.code).toBe("VALIDATION");
  await through({ volume });
  expect(await branch()).toMatchObject({ status: "ready", generation: 1, node_id: here?.id });
  expect(await newest()).toMatchObject({
    pinned_to: here?.id,
    spec: { generation: 1, restore: null, init: false },
  });
  const volumes = db.selectFrom("database_volume").select(["generation", "state"]).where("database_id", "=", id);
  expect(await volumes.orderBy("generation").execute()).toEqual([
    { generation: 1, state: "current" },
    { generation: 2, state: "salvage" },
  ]);
  // Whatever became of that one: on some machine it may still be.
  await db.deleteFrom("database_volume").where("database_id", "=", id).where("generation", "=", 2).execute();
  await through({});
  expect(await branch()).toMatchObject({ generation: 3 });
});

test("a database whose machine is lost goes back to its volume where the machine is back under another id", async () => {
  const { db } = world.api;
  await db
    .updateTable("node")
    .set({ lifecycle: "fenced" })
    .where("id", "=", here?.id ?? "")
    .execute();
  await workOnBranch();
  const volume = databaseVolume(id, 1);
  expect((await ask("restore", { volume, confirm: true })).body.error.code).toBe("CONFLICT");
  await db
    .updateTable("database_volume")
    .set({ node_id: there?.id ?? "" })
    .where("database_id", "=", id)
    .execute();
  expect(await ask("restore", { volume, confirm: true })).toMatchObject({
    status: 202,
    body: { change: { to: { id: there?.id } }, coveredAt: null },
  });
  await workOnChange();
  await endServer();
  await workOnChange();
  await serve();
  await workOnChange();
  expect(await branch()).toMatchObject({ status: "ready", reason: null, generation: 1, node_id: there?.id });
});

test("a restore to a moment ends the server first, and asks for nothing after that moment", async () => {
  await beginKeeper();
  const at = ago(60).toISOString();
  expect((await ask("restore", { at: ago(7_200).toISOString(), confirm: true })).body.error).toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining("Copies go from"),
  });
  expect(await ask("restore", { at, confirm: true })).toMatchObject({ status: 202, body: { coveredAt: at } });
  await workOnChange();
  expect(await servers()).toMatchObject([{ desired: "removed" }]);
  await endServer();
  await workOnChange();
  expect((await servers()).at(-1)).toMatchObject({ spec: { restore: { until: at } } });
});

test("a drain that takes databases along moves them, one at a time, and says why it cannot", async () => {
  const { db, log } = world.deps;
  const round = () => moveFromDraining({ db, random: systemRandom, log });
  await beginKeeper();
  await db
    .updateTable("node")
    .set({ drain: "draining", schedulable: false })
    .where("id", "=", here?.id ?? "")
    .execute();
  await round();
  expect(await changesOf()).toEqual([]);
  await db
    .updateTable("node")
    .set({ drain_moves_databases: true })
    .where("id", "=", here?.id ?? "")
    .execute();
  // One that cannot move keeps no other one there.
  const suspended = await world.api.newProject(owner);
  const first = `0${randomUUID().slice(1)}`;
  await insertBranch(db, world.api.context.secrets, {
    ...{ id: first, projectId: suspended.id, channel: "production", engine: "postgres" },
  });
  await db
    .updateTable("database")
    .set({ status: "ready", node_id: here?.id ?? "" })
    .where("id", "=", first)
    .execute();
  await db
    .updateTable("project")
    .set({ suspended_at: ago(60) })
    .where("id", "=", suspended.id)
    .execute();
  await round();
  await round();
  expect(await change()).toMatchObject({ kind: "move", state: "copying", to_node: there?.id, requested_by: "svc" });
  await db
    .updateTable("node")
    .set({ drain: "none" })
    .where("id", "=", here?.id ?? "")
    .execute();
});

test("a server of which a backup has just begun is not upgraded before that is over", async () => {
  const { db, fleet, log } = world.deps;
  const images = { ...defaultDatabaseImages, postgres: "svc/postgres:next" };
  await db.updateTable("database").set({ status: "error", reason: "left" }).where("id", "!=", id).execute();
  const round = await db.transaction().execute(async (tx) => {
    await lockBranch(tx, id);
    const begun = upgradeServers({ db, fleet, random: systemRandom, images, log });
    await until("the round to wait for the branch", async () => (await lockWaits(db)) > 0);
    const { channel, engine } = await branch();
    await insertBackup(tx, { id: randomUUID(), projectId, databaseId: id, channel, engine });
    return { begun };
  });
  await round.begun;
  expect(await changesOf()).toEqual([]);
});

test("a server of another image is started again in the installation's, over the volume that it has", async () => {
  const { db, fleet, log } = world.deps;
  const images = { ...defaultDatabaseImages, postgres: "svc/postgres:next" };
  const round = () => upgradeServers({ db, fleet, random: systemRandom, images, log });
  // Others of this file are no servers that anybody upgrades.
  await db.updateTable("database").set({ status: "error", reason: "left" }).where("id", "!=", id).execute();
  const cordon = (isCordoned: boolean) =>
    db
      .updateTable("node")
      .set({ schedulable: !isCordoned })
      .where("id", "=", here?.id ?? "")
      .execute();
  // What ends there would not come up again.
  await cordon(true);
  await round();
  expect(await changesOf()).toEqual([]);
  await cordon(false);
  await round();
  expect(await change()).toMatchObject({ kind: "upgrade", state: "stopping", image: images.postgres });
  await workOnChange();
  await endServer();
  await workOnChange();
  expect(await servers()).toMatchObject([
    { spec: { image: defaultDatabaseImages.postgres } },
    { pinned_to: here?.id, spec: { image: images.postgres, generation: 1, restore: null, init: false } },
  ]);
  await round();
  await serve();
  await workOnChange();
  expect(await change()).toMatchObject({ state: "done" });
  expect(await branch()).toMatchObject({ status: "ready", generation: 1 });
  await round();
  expect(await changesOf()).toHaveLength(1);
});
