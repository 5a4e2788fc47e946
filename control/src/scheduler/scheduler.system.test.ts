import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keys } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";
import type { Deployment } from "../db/tables.ts";
import { lockDeployment, removeTasks } from "../deployments/store.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../deployments/testing/virtual-fleet.ts";
import { campaign, type Etcd } from "../etcd/index.ts";
import { startEtcd, testClient, until } from "../etcd/testing.ts";
import { type TestApi, testApi } from "../http/testing.ts";
import { createLog } from "../log.ts";
import { scheduleOnce } from "./scheduler.ts";

const stack = new AsyncDisposableStack();
let api: TestApi;
let etcd: Etcd;
let virtual: VirtualFleet;
let deployment: Deployment;
beforeAll(async () => {
  const server = stack.use(await startEtcd());
  api = stack.use(await testApi());
  etcd = stack.use(testClient(server.endpoint));
  virtual = stack.use(await startVirtualFleet({ db: api.db, etcd, random: createRandom(1), nodes: 1 }));
  virtual.calm();
  deployment = await api.newDeployment(await api.newProject(await api.newUser()), { status: "running" });
});
afterAll(() => stack.disposeAsync());

/** Leads, and does what `act` says with rounds of the scheduler. */
async function leading(act: (round: () => Promise<void>) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  let outcome: Promise<void> = Promise.reject(new Error("nobody led"));
  outcome.catch(() => {});
  await campaign({
    ...{ etcd, key: keys.leader, id: "test", ttlMs: 10_000, signal: stop.signal },
    async lead(leadership) {
      const parts = { db: api.db, etcd, fleet: virtual.fleet, leadership, log: createLog("silent") };
      outcome = act(() => scheduleOnce(parts));
      await outcome.catch(() => {});
      stop.abort();
    },
  });
  await outcome;
}

/** Begins a round while a transaction has done `first`, and has the transaction do `then` when the round waits for it. */
async function meeting(round: () => Promise<void>, first: (tx: Db) => Promise<unknown>, then: typeof first) {
  let running: Promise<void> | undefined;
  await api.db.transaction().execute(async (tx) => {
    await first(tx);
    running = round();
    // Looked at below.
    running.catch(() => {});
    await until("the round to wait", async () => {
      const { rows } = await sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(api.db);
      return rows.length > 0;
    });
    await then(tx);
  });
  await running;
}

const touch = (id: string) => (tx: Db) => tx.updateTable("task").set({ trouble: null }).where("id", "=", id).execute();
const rowOf = (id: string) => api.db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();

test("a round and whoever goes by epoch do not wait for one another", async () => {
  // What is over is dealt with before what is to be placed.
  const [waiting, leaving] = [await api.newTask(deployment), await api.newTask(deployment, { desired: "removed" })];
  await leading((round) => meeting(round, touch(waiting.id), touch(leaving.id)));
  expect(await rowOf(waiting.id)).toMatchObject({ node_id: expect.any(String) });
  expect(await rowOf(leaving.id)).toMatchObject({ reaped_at: expect.any(Date) });
});

test("a round that tells of a container does not wait for whoever ends it", async () => {
  const { id } = await api.newTask(deployment, { replica: 1 });
  await leading(async (round) => {
    await round();
    await until("it to run", () => {
      const placed = virtual.fleet.findPlacement(id);
      return placed && virtual.fleet.observation(placed.nodeId, id)?.observed === "running";
    });
    await api.db.updateTable("task").set({ memory_mb: 300 }).where("id", "=", id).execute();
    await meeting(
      round,
      (tx) => lockDeployment(tx, deployment.id, "running"),
      (tx) => removeTasks(tx, [id]),
    );
  });
  expect(await rowOf(id)).toMatchObject({ desired: "removed" });
});
