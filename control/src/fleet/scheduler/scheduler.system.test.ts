import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { campaign, type Etcd, type Leadership, UnknownOutcome } from "../../stores/etcd/index.ts";
import { startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../../tenants/deployments/testing/virtual-fleet.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { keys, prefix } from "../cluster/keys.ts";
import { removeTasks } from "../tasks/change.ts";
import { lockDeployment } from "../tasks/deployment.ts";
import { createScheduler, type SchedulerDeps, scheduleOnce } from "./scheduler.ts";
import { schedulerRows } from "./store.ts";

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
async function leading(
  act: (round: () => Promise<void>, leadership: Leadership) => Promise<void>,
  make: (parts: SchedulerDeps) => () => Promise<void> = (parts) => () => scheduleOnce(parts),
): Promise<void> {
  const stop = new AbortController();
  let outcome: Promise<void> = Promise.reject(new Error("nobody led"));
  outcome.catch(() => {});
  await campaign({
    ...{ etcd, key: keys.leader, id: "test", ttlMs: 10_000, signal: stop.signal },
    async lead(leadership) {
      const parts = {
        clock: systemClock,
        rows: schedulerRows(api.db),
        etcd,
        fleet: virtual.fleet,
        leadership,
        log: createLog("silent"),
      };
      await raiseFence(api.db, leadership.epoch);
      outcome = act(make(parts), leadership);
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
    await until("the round to wait", async () => (await lockWaits(api.db)) > 0);
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

const placementsOf = async (id: string) =>
  (await etcd.range(prefix.placements)).entries.filter(({ key }) => key.endsWith(`/${id}`));
const newTasks = (count: number) =>
  Promise.all(Array.from({ length: count }, (_, replica) => api.newTask(deployment, { replica })));

test("what a foreign hand put in the way of one placement holds up no other", async () => {
  await leading(async (round) => {
    await round();
    const tasks = await newTasks(3);
    const [nodeId = ""] = (await api.db.selectFrom("node").select("id").where("role", "=", "node").execute()).map(
      ({ id }) => id,
    );
    const value = JSON.stringify({ ...(await aPlacementOf(tasks[1]?.id ?? "")), channel: "production" });
    await etcd.txn({ ops: [{ put: { key: keys.placement(nodeId, tasks[1]?.id ?? ""), value } }] });
    await round();
    expect((await Promise.all(tasks.map(({ id }) => rowOf(id)))).map(({ node_id }) => node_id)).toEqual([
      nodeId,
      nodeId,
      nodeId,
    ]);
  }, createScheduler);
});

/** The value that the scheduler would write for a task. */
async function aPlacementOf(id: string) {
  const task = await rowOf(id);
  return {
    ...{ placementId: id, epoch: task.epoch, desired: "running", kind: "serve", specHash: task.spec_hash },
    ...{ projectId: task.project_id, ownerKind: task.owner_kind, ownerId: task.owner_id, channel: task.channel },
    ...{ memoryMb: task.memory_mb, cpuMillicores: task.cpu_millicores, pidsLimit: task.pids_limit },
  };
}

test("a write whose outcome is not known is not made a second time, and never arrives after the next one", async () => {
  const late: (() => Promise<unknown>)[] = [];
  let isCut = false;
  await leading(
    async (round) => {
      await round();
      const [first] = await newTasks(1);
      isCut = true;
      await expect(round()).rejects.toThrow("cut off");
      isCut = false;
      await round();
      const placed = await placementsOf(first?.id ?? "");
      expect(placed).toHaveLength(1);
      // What was under way all the while comes now.
      expect(await Promise.all(late.map((arrive) => arrive()))).toEqual([
        expect.objectContaining({ succeeded: false }),
      ]);
      expect(await placementsOf(first?.id ?? "")).toEqual(placed);
      await round();
    },
    (parts) =>
      createScheduler({
        ...parts,
        leadership: {
          epoch: parts.leadership.epoch,
          signal: parts.leadership.signal,
          isHeld: parts.leadership.isHeld,
          async txn(ops, guards) {
            if (!isCut) return parts.leadership.txn(ops, guards);
            late.push(() => parts.leadership.txn(ops, guards));
            throw new UnknownOutcome("cut off");
          },
        },
      }),
  );
});

test("etcd is read in full once, and a thousand tasks that wait are told why together", async () => {
  let reads = 0;
  const counting: Etcd = {
    ...etcd,
    range: (under) => {
      reads += 1;
      return etcd.range(under);
    },
  };
  await leading(
    async (round) => {
      await round();
      const blocked = await newTasks(1_000);
      const ids = sql<string>`any(${blocked.map(({ id }) => id)}::uuid[])`;
      await api.db.updateTable("task").set({ memory_mb: 100_000_000 }).where("id", "=", ids).execute();
      await round();
      const waiting = api.db.selectFrom("task").select("refused").where("id", "=", ids);
      expect(new Set((await waiting.execute()).map(({ refused }) => JSON.stringify(refused)))).toEqual(
        new Set(['{"less memory in all than it needs":1}']),
      );
      const before = await sql<{ xmin: string }>`select xmin::text from task where id = ${ids}`.execute(api.db);
      await round();
      const after = await sql<{ xmin: string }>`select xmin::text from task where id = ${ids}`.execute(api.db);
      expect(after.rows).toEqual(before.rows);
      expect(reads).toBe(1);
      await api.db.updateTable("task").set({ desired: "removed" }).where("id", "=", ids).execute();
      await round();
      const left = api.db.selectFrom("task").select("id").where("id", "=", ids).where("reaped_at", "is", null);
      expect(await left.execute()).toEqual([]);
    },
    (parts) => createScheduler({ ...parts, etcd: counting }),
  );
});

test("a node that an operator cordons or drains gets nothing new, and what waits says so", async () => {
  const node = api.db.updateTable("node").where("role", "=", "node");
  await leading(async (round) => {
    const [task] = await newTasks(1);
    await node.set({ schedulable: false }).execute();
    await round();
    expect(await rowOf(task?.id ?? "")).toMatchObject({ node_id: null, refused: { cordoned: 1 } });
    await node.set({ drain: "draining" }).execute();
    await round();
    expect(await rowOf(task?.id ?? "")).toMatchObject({ node_id: null, refused: { draining: 1 } });
    await node.set({ drain: "none", schedulable: true }).execute();
    await round();
    expect(await rowOf(task?.id ?? "")).toMatchObject({ node_id: expect.any(String), refused: null });
  }, createScheduler);
});

test("what waits for room gets that of replaced containers of its project, whoever asked for it", async () => {
  const [node] = virtual.nodeIds;
  const project = await api.newProject(await api.newUser());
  const [replaced, waiting] = [await api.newDeployment(project), await api.newDeployment(project)];
  virtual.busy.add(replaced.id);
  const drains = await api.newTask(replaced, { memory_mb: 900_000 });
  const drainOf = async () => (await rowOf(drains.id)).drain_seconds;
  await leading(async (round) => {
    await round();
    await removeTasks(api.db, [drains.id], { drainSeconds: 3_600 });
    const { id } = await api.newTask(waiting, { memory_mb: 200_000 });
    await round();
    expect(await rowOf(id)).toMatchObject({ node_id: null, refused: { "too little memory": 1 } });
    await round();
    expect(await drainOf()).toBe(3_600);
    await api.db
      .updateTable("task")
      .set({ created_at: sql<Date>`created_at - interval '10 seconds'` })
      .where("id", "=", id)
      .execute();
    await round();
    expect(await drainOf()).toBe(0);
    await until("it to have the room", async () => {
      await round();
      return (await rowOf(id)).node_id === node;
    });
  }, createScheduler);
  virtual.busy.delete(replaced.id);
});

test("a user's Dockerfile is built where the engine may, other work goes anywhere", async () => {
  const image = { dockerfile: "Dockerfile", buildCommand: "", startCommand: "", port: 3000 };
  const build = (recipe: object) => api.newTask(deployment, { kind: "build", spec: JSON.stringify({ recipe }) });
  const problem = (dockerfile_problem: string | null) =>
    api.db.updateTable("node").set({ dockerfile_problem }).where("role", "=", "node").execute();
  await leading(async (round) => {
    await problem("Docker 20.10.24 is old");
    const [own, generated] = await Promise.all([build({ image }), build({ image: { ...image, dockerfile: "" } })]);
    await round();
    expect(await rowOf(own.id)).toMatchObject({
      node_id: null,
      refused: { "a container engine that is too old for Dockerfiles and does not remap users": 1 },
    });
    expect(await rowOf(generated.id)).toMatchObject({ node_id: expect.any(String), refused: null });
    await problem(null);
    await round();
    expect(await rowOf(own.id)).toMatchObject({ node_id: expect.any(String), refused: null });
  }, createScheduler);
});
