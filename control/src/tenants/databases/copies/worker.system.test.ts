import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { create } from "@bufbuild/protobuf";
import { copyTooLarge, defaultDatabaseImages } from "@svc/proto";
import { CopySampleSchema, CopySample_State as State } from "@svc/proto/node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keys, type ObservationValue } from "../../../fleet/cluster/keys.ts";
import { storeCopySamples } from "../../../fleet/databases/copy-reports.ts";
import { openKeeperPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { startTestFleet, type TestFleet } from "../../../fleet/nodes/testing.ts";
import { databaseTask } from "../../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { createLog } from "../../../log.ts";
import type { Node } from "../../../stores/db/tables.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { buryBranch, insertBranch } from "../store.ts";
import { readDurability } from "./durability.ts";
import { readCopiesFacts } from "./facts.ts";
import { enqueueCopyRound } from "./rounds.ts";
import { copyRows } from "./rows.ts";
import { lackingMaxMs } from "./steps.ts";
import { beginCopy, findRestorable } from "./store.ts";
import { copiesWorker } from "./worker.ts";

let world: TestFleet;
let home: Node;
let other: Node;
beforeAll(async () => {
  world = await startTestFleet();
  [home, other] = [await world.newNode(), await world.newNode()];
});
afterAll(() => world?.[Symbol.asyncDispose]());

let id = "";
/** What the server was told. */
let told: { verifier: string | null; released: string[] };
beforeEach(async () => {
  const { api } = world;
  id = randomUUID();
  told = { verifier: null, released: [] };
  const project = await api.newProject(await api.newUser());
  await insertBranch(api.db, api.context.secrets, {
    id,
    projectId: project.id,
    channel: "production",
    engine: "postgres",
  });
  await api.db.updateTable("database").set({ status: "ready", node_id: home.id }).where("id", "=", id).execute();
  const resources = { memoryMb: 64, cpuMillicores: 9, pidsLimit: 64, reservedMemoryMb: 64, reservedCpuMillicores: 9 };
  const server = {
    ...resources,
    storageMb: 0,
    image: "db:1",
    sizeMb: 10,
    connections: 20,
    readOnly: false,
    nodeSelector: {},
  };
  const row = await branch();
  const task = await insertTask(api.db, { ...row, pr_number: null }, databaseTask(row, server), { replica: 0 });
  await observe(task, home.id);
});

const branch = () => world.api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const copies = () =>
  world.api.db.selectFrom("database_copy").selectAll().where("database_id", "=", id).orderBy("created_at").execute();
const keepers = (copyId: string) =>
  world.api.db.selectFrom("task").selectAll().where("owner_id", "=", copyId).orderBy("epoch").execute();

async function observe(placementId: string, nodeId: string): Promise<void> {
  const { epoch } = await world.api.db
    .updateTable("task")
    .set({ node_id: nodeId })
    .where("id", "=", placementId)
    .returning("epoch")
    .executeTakeFirstOrThrow();
  const value: ObservationValue = {
    ...{ placementId, epoch: Number(epoch), statusSeq: 1, observed: "running", health: "healthy", restartSeq: 0 },
    ...{ upstream: null, failure: null, build: null, changedAt: new Date().toISOString() },
  };
  await world.put(keys.observation(nodeId, placementId), value);
  await until("it to be seen", () => world.fleet.observation(nodeId, placementId)?.observed === value.observed);
}

/** A copy is begun at a node, as the worker does where that is the best. */
const begin = async (nodeId: string) => beginCopy(world.api.db, await branch(), { purpose: "keeper", nodeId });

const work = async () => {
  const { deps, api, fleet } = world;
  const handler = copiesWorker({
    ...{ ...deps, fleet, secrets: api.context.secrets, rows: copyRows(api.db, defaultDatabaseImages), isWanted: true },
    openLine: async () => new PassThrough(),
    admin: {
      async bringKeeper(_, { verifier }) {
        told.verifier = verifier;
      },
      async releaseSlots(_, { slots }) {
        told.released.push(...slots);
        return slots.length;
      },
    },
  });
  const item = { id: 1, kind: "copies", key: id, attempt: 1, maxAttempts: 20, ageMs: 0, payload: { databaseId: id } };
  return handler(item as never, new AbortController().signal);
};

const sample = (copyId: string, change: object = {}) =>
  create(CopySampleSchema, {
    ...{ copyId, at: new Date().toISOString(), state: State.FOLLOWING, coveredAt: new Date().toISOString() },
    ...{
      position: "0/1",
      bytes: 5n,
      bases: [{ number: 1, at: new Date(Date.now() - 60_000).toISOString(), bytes: 4n }],
    },
    ...change,
  });
const tell = (nodeId: string, ...samples: Parameters<typeof storeCopySamples>[2]) =>
  storeCopySamples({ db: world.api.db, log: createLog("silent") }, nodeId, samples, new Date());

test("whoever keeps a copy is let in before it starts, and starts once", async () => {
  const copyId = await begin(other.id);
  await work();
  await work();
  const row = await branch();
  expect(told.verifier).toBe(verifierOf("postgres", id, openKeeperPassword(world.api.context.secrets, row)));
  expect(await keepers(copyId)).toMatchObject([
    { kind: "keeper", owner_kind: "copy", desired: "running", pinned_to: other.id, spec: { databaseId: id } },
  ]);
});

test("another volume ends a copy, whose log is released once nobody keeps it, and which can be restored from", async () => {
  const copyId = await begin(other.id);
  await work();
  await tell(other.id, sample(copyId));
  await world.api.db.updateTable("database").set({ generation: 2 }).where("id", "=", id).execute();
  await work();
  const [ended] = await copies();
  expect(ended).toMatchObject({ id: copyId, state: "ended" });
  expect(Number(ended?.purge_at) - Date.now()).toBeGreaterThan(6 * 86_400_000);
  expect(await keepers(copyId)).toMatchObject([{ desired: "removed" }]);
  expect(await findRestorable(world.api.db, id)).toMatchObject({ id: copyId });
  expect(await findRestorable(world.api.db, id, new Date(Date.now() - 86_400_000))).toBeNull();
  expect(told.released).toEqual([]);
});

test("a moment that a gap in the log follows is not restored from what comes before the gap", async () => {
  const copyId = await begin(other.id);
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);
  const base = (number: number, from: number, to?: number) => ({
    ...{ number, at: minutesAgo(from).toISOString(), bytes: 4n },
    ...(to !== undefined && { until: minutesAgo(to).toISOString() }),
  });
  await tell(other.id, sample(copyId, { bases: [base(1, 60, 40), base(2, 20)] }));
  const covers = async (minutes: number) =>
    (await findRestorable(world.api.db, id, minutesAgo(minutes)))?.id === copyId;
  expect([await covers(61), await covers(50), await covers(30), await covers(10)]).toEqual([false, true, false, true]);
  expect(await findRestorable(world.api.db, id)).toMatchObject({ id: copyId });
});

test("a branch that went back to an earlier volume is not restored from a copy of the later one", async () => {
  const later = await begin(other.id);
  await tell(other.id, sample(later));
  await world.api.db.updateTable("database").set({ generation: 2 }).where("id", "=", id).execute();
  await work();
  const own = await begin(other.id);
  await tell(other.id, sample(own));
  await world.api.db.updateTable("database_copy").set({ generation: 3 }).where("id", "=", later).execute();
  expect(await findRestorable(world.api.db, id)).toMatchObject({ id: own, generation: 2 });
});

test("the log of a copy that has ended is released when its keeper is over", async () => {
  const copyId = await begin(other.id);
  await work();
  const [keeper] = await keepers(copyId);
  await world.api.db
    .updateTable("database_copy")
    .set({ state: "ended", ended_at: new Date(), purge_at: new Date() })
    .where("id", "=", copyId)
    .execute();
  await begin(other.id);
  await work();
  expect(told.released).toEqual([]);
  await world.api.db
    .updateTable("task")
    .set({ reaped_at: new Date() })
    .where("id", "=", keeper?.id ?? "")
    .execute();
  await work();
  expect(told.released).toEqual([expect.stringMatching(/^svc_copy_[0-9a-f]{16}$/)]);
});

test("only a copy on another node that has everything until now protects a branch", async () => {
  const protection = async () => (await readDurability(world.api.db, [id])).get(id)?.protection ?? "local";
  const copyId = await begin(other.id);
  expect(await protection()).toBe("local");
  // Another node's word, or a word from long ago.
  await tell(home.id, sample(copyId));
  expect(await protection()).toBe("local");
  await tell(other.id, sample(copyId, { at: new Date(Date.now() - 7_200_000).toISOString() }));
  expect(await protection()).toBe("local");
  await tell(other.id, sample(copyId));
  expect(await protection()).toBe("keeper");
  await world.api.db
    .updateTable("database_copy")
    .set({ covered_at: new Date(Date.now() - 301_000) })
    .where("id", "=", copyId)
    .execute();
  expect(await protection()).toBe("local");
});

test("a copy that breaks is told of in the audit, once", async () => {
  const copyId = await begin(other.id);
  await tell(other.id, sample(copyId));
  for (const minute of [1, 2]) {
    const at = new Date(Date.now() + minute * 20_000).toISOString();
    await tell(other.id, sample(copyId, { at, state: State.BROKEN, problem: "its log has a hole" }));
  }
  const { project_id } = await branch();
  const lines = await world.api.db.selectFrom("audit").select("action").where("target", "=", project_id).execute();
  expect(lines.filter(({ action }) => action === "database.copy-broken")).toHaveLength(1);
  expect((await copies())[0]).toMatchObject({ state: "broken", problem: "its log has a hole" });
});

test("a copy lacks what was written for as long as its server was there, and tells when that is for want of room", async () => {
  const copyId = await begin(other.id);
  await work();
  await tell(other.id, sample(copyId));
  const broken = { state: State.BROKEN, problem: "its log has a hole" };
  await tell(other.id, sample(copyId, { ...broken, at: new Date(Date.now() + 20_000).toISOString() }));
  const follow = async (hoursAgo: number, problem = broken.problem) => {
    const at = new Date(Date.now() - hoursAgo * 3_600_000);
    const { db } = world.api;
    await db.updateTable("database").set({ status_at: at }).where("id", "=", id).execute();
    await db.updateTable("task").set({ created_at: at }).where("owner_id", "=", id).execute();
    await db
      .updateTable("database_copy")
      .set({ created_at: at, covered_at: at, problem })
      .where("id", "=", copyId)
      .execute();
    const rows = copyRows(db, defaultDatabaseImages);
    const found = await readCopiesFacts({ rows, fleet: world.fleet, isWanted: true }, id);
    const [copy] = found?.copies.copies ?? [];
    return { isOverdue: (copy?.lackingMs ?? 0) >= lackingMaxMs, isTooLarge: copy?.isTooLarge };
  };
  expect(await follow(5.9)).toEqual({ isOverdue: false, isTooLarge: false });
  expect(await follow(6.1)).toEqual({ isOverdue: true, isTooLarge: false });
  expect(await follow(6.1, copyTooLarge)).toEqual({ isOverdue: true, isTooLarge: true });
});

test("a branch that is dropped keeps its copies for as long as it can come back", async () => {
  const copyId = await begin(other.id);
  await world.api.db
    .transaction()
    .execute(async (tx) => buryBranch(tx, await branch(), { nodeId: home.id, keptHours: 72 }));
  const [copy] = await copies();
  expect(copy).toMatchObject({ id: copyId, state: "ended" });
  expect(Number(copy?.purge_at) - Date.now()).toBeGreaterThan(71 * 3_600_000);
});

test("a branch without a copy is looked at, and soon again", async () => {
  const looked = async () => {
    await enqueueCopyRound(world.api.db, { isWanted: true });
    return world.api.db.selectFrom("work_item").select("id").where("key", "=", `copies/${id}`).execute();
  };
  expect(await looked()).toHaveLength(1);
  expect(await looked()).toHaveLength(1);
});

test("a branch of a suspended project without a copy takes no turn of those that could have one", async () => {
  const { db } = world.api;
  const { project_id } = await branch();
  await db.updateTable("project").set({ suspended_at: new Date() }).where("id", "=", project_id).execute();
  const lookedAt = new Date(Date.now() - 60_000);
  await db.updateTable("database").set({ copies_looked_at: lookedAt }).where("id", "=", id).execute();
  await enqueueCopyRound(db, { isWanted: true });
  expect((await branch()).copies_looked_at).toEqual(lookedAt);
});
