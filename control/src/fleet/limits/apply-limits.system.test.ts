import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { HealthState, Observed, type Placement, PlacementSchema } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, test } from "vitest";
import { keepHouse } from "../../housekeeping.ts";
import { applyLimitsKind } from "../../identity/plans/apply-limits.ts";
import { changePlan } from "../../identity/plans/change.ts";
import { startLeader } from "../../leader.ts";
import { createLog } from "../../log.ts";
import { seedPlans } from "../../stores/db/seed.ts";
import { workRows } from "../../stores/work/rows.ts";
import { startWorkers } from "../../stores/work/worker.ts";
import { keys, type PlacementValue } from "../cluster/keys.ts";
import { type OpenFleet, openFleet } from "../cluster/testing.ts";
import type { Link } from "../daemons/start.ts";
import {
  type AgentTalk,
  aDaemon,
  aReconciledAgent,
  aWorld,
  type DaemonFiles,
  until,
  type World,
} from "../daemons/testing.ts";
import type { TaskSpec } from "../tasks/kinds/index.ts";
import { insertTask } from "../tasks/store.ts";
import { applyLimitsWorker, wantPlanLimits } from "./worker.ts";

// A plan changes, and agents are told: real stores, a real link, and an agent that plays by the test's words.

const log = createLog(process.env["SVC_TEST_LOG_LEVEL"] ?? "silent");
let world: World;
let link: Link;
let fleet: OpenFleet;
let node: DaemonFiles;
let planId = "";
beforeEach(async () => {
  world = await aWorld();
  // The test's own leader comes.
  await world.remove(keys.leader);
  const { db } = world.database;
  await seedPlans(db);
  ({ id: planId } = await db
    .updateTable("plan")
    .set({ ...small, ...allSetAside })
    .returning("id")
    .executeTakeFirstOrThrow());
  fleet = await openFleet(world.etcd, { clock: systemClock, log });
  link = await world.startLink({ serverId, loadPlacement });
  await world.put(keys.server(serverId), { serverId, startedAt: new Date().toISOString() });
  node = await aDaemon(world, link, "node");
});
afterEach(async () => {
  await link?.[Symbol.asyncDispose]();
  await fleet?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const serverId = "replica-1";
const small = { memory_mb: 256, cpu_millicores: 500, pids_limit: 100, storage_mb: 512 };
const large = { memory_mb: 512, cpu_millicores: 1_000, pids_limit: 200, storage_mb: 1_024 };
type Limits = typeof small;
/** All that a container may take: more than that never is. */
const allSetAside = { reserved_memory_mb: 1_048_576, reserved_cpu_millicores: 1_024_000 };
const reservedOf = (limits: Limits) => ({
  reservedMemoryMb: limits.memory_mb,
  reservedCpuMillicores: limits.cpu_millicores,
});

const change = (limits: Partial<Limits>) =>
  world.database.db.transaction().execute((tx) =>
    changePlan(tx, planId, {
      ...(limits.memory_mb !== undefined && { memoryMb: limits.memory_mb }),
      ...(limits.cpu_millicores !== undefined && { cpuMillicores: limits.cpu_millicores }),
      ...(limits.pids_limit !== undefined && { pidsLimit: limits.pids_limit }),
      ...(limits.storage_mb !== undefined && { storageMb: limits.storage_mb }),
    }),
  );

/** The part of a control server that matters here; `stop` is what a kill does to everybody else. */
function startReplica(): AsyncDisposable {
  const { database, etcd, listener } = world;
  const { db } = database;
  const stack = new AsyncDisposableStack();
  const serverId = randomUUID();
  stack.use(
    startWorkers({
      clock: systemClock,
      ...{ rows: workRows(db), listener, log, owner: serverId, leaseMs: 700 },
      groups: [{ concurrency: 4, handlers: { [applyLimitsKind]: applyLimitsWorker({ db, log }) } }],
    }),
  );
  stack.use(
    startLeader({
      clock: systemClock,
      random: systemRandom,
      db,
      etcd,
      fleet,
      listener,
      log,
      serverId,
      gateSecret: Buffer.alloc(32),
      ttlMs: 1_000,
    }),
  );
  return stack;
}

/** A container of a running deployment, of a project whose owner was never given a plan. */
async function aTask(limits: Limits = small, kind: "serve" | "build" = "serve") {
  const { db } = world.database;
  const [ownerId, slug] = [randomUUID(), `shop-${randomUUID().slice(0, 8)}`];
  await sql`insert into auth."user" (id, name, email, "emailVerified") values
    (${ownerId}, 'Ada', ${`${ownerId}@svc.test`}, true)`.execute(db);
  const project = await db
    .insertInto("project")
    .values({ owner_id: ownerId, name: "Shop", slug, type: "ssr" })
    .returning("id")
    .executeTakeFirstOrThrow();
  const deployment = await db
    .insertInto("deployment")
    .values({ project_id: project.id, status: "running", channel: "production", url: "http://x", manifest: "{}" })
    .returningAll()
    .executeTakeFirstOrThrow();
  const task = {
    spec: { kind, targetRepository: "svc/x/app", recipe: {} } as unknown as TaskSpec,
    nodeSelector: {},
    ...{ memoryMb: limits.memory_mb, cpuMillicores: limits.cpu_millicores, pidsLimit: limits.pids_limit },
    storageMb: limits.storage_mb,
    ...reservedOf(limits),
  };
  return {
    id: await insertTask(db, deployment, task, { replica: 0 }),
    deploymentId: deployment.id,
    projectId: project.id,
  };
}

const loadPlacement = async (placementId: string): Promise<Placement> =>
  create(PlacementSchema, { placementId, specHash: "h1", spec: { case: "serve", value: { port: 3000 } } });

/** An agent that waits for work, on a node of 2048 MB. */
const anIdleAgent = (): Promise<AgentTalk> => aReconciledAgent(world, link, node);

/** Waits for an order for the task and takes it. */
async function nextOrder(agent: AgentTalk, id: string): Promise<Placement> {
  for (;;) {
    const { upserts, resultsIn } = await agent.next("assign");
    agent.send({ case: "applied", value: { resultsIn } });
    const found = upserts.find(({ placementId }) => placementId === id);
    if (found) return found;
  }
}

let seq = 0n;
function report(
  agent: AgentTalk,
  { placementId, epoch }: Placement,
  limits: Limits | null,
  generation = 0n,
  problem = "",
) {
  seq += 1n;
  const resources = limits && {
    ...{ memoryMb: limits.memory_mb, cpuMillicores: limits.cpu_millicores, pidsLimit: limits.pids_limit, generation },
    ...reservedOf(limits),
  };
  const item = {
    ...{ placementId, epoch, statusSeq: seq, observed: Observed.RUNNING, health: HealthState.HEALTHY },
    ...{
      upstream: `${node.address}:31000`,
      specHash: "h1",
      resourcesProblem: problem,
      ...(resources && { resources }),
    },
  };
  agent.send({ case: "status", value: { batchSeq: seq, items: [item] } });
}

/** A task that runs with `small` limits. */
async function running(agent: AgentTalk) {
  const task = await aTask();
  const order = await nextOrder(agent, task.id);
  expect(limitsIn(order)).toEqual([small, 0n]);
  report(agent, order, small);
  await until("the report to be known", () => fleet.observation(node.id, task.id)?.limits);
  return { ...task, order };
}

const limitsIn = ({ resources }: Placement): [Limits, bigint] => [
  {
    memory_mb: resources?.memoryMb ?? 0,
    cpu_millicores: resources?.cpuMillicores ?? 0,
    pids_limit: resources?.pidsLimit ?? 0,
    storage_mb: resources?.storageMb ?? 0,
  },
  resources?.generation ?? -1n,
];
const placementOf = (id: string) => world.read<PlacementValue>(keys.placement(node.id, id));
const eventsOf = async (deploymentId: string) =>
  (
    await world.database.db
      .selectFrom("deployment_event")
      .select(["phase", "detail"])
      .where("deployment_id", "=", deploymentId)
      .orderBy("id")
      .execute()
  ).map(({ phase, detail }) => [phase, detail]);
const rowOf = (id: string) =>
  world.database.db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();

test("a plan that changes reaches what runs, as a new generation, and the last of two changes wins", async () => {
  await using _replica = startReplica();
  await using agent = await anIdleAgent();
  const { id, order } = await running(agent);
  await change(large);
  const changed = await nextOrder(agent, id);
  expect(limitsIn(changed)).toEqual([large, 1n]);
  expect(changed).toMatchObject({ epoch: order.epoch, specHash: "h1", desired: order.desired, spec: order.spec });
  report(agent, changed, large, 1n);

  await change({ memory_mb: 300 });
  await change({ memory_mb: 400, pids_limit: 50 });
  const last = { ...large, memory_mb: 400, pids_limit: 50 };
  const told: [Limits, bigint][] = [];
  while (told.at(-1)?.[0].memory_mb !== 400) told.push(limitsIn(await nextOrder(agent, id)));
  expect(told.at(-1)?.[0]).toEqual(last);
  // Whoever comes to look when the last one is there already never hears of the one before.
  expect([[2n, 3n], [3n], [2n]]).toContainEqual(told.map(([, generation]) => generation));
});

test("builds, and what is to go, keep what they began with", async () => {
  const { db } = world.database;
  const [build, leaving, staying] = [await aTask(small, "build"), await aTask(), await aTask()];
  await db.updateTable("task").set({ desired: "removed" }).where("id", "=", leaving.id).execute();
  await db.updateTable("plan").set(large).where("id", "=", planId).execute();
  for (const { projectId } of [build, leaving, staying]) {
    await db.transaction().execute((tx) => wantPlanLimits(tx, projectId));
  }
  expect([await rowOf(build.id), await rowOf(leaving.id), await rowOf(staying.id)]).toMatchObject([
    small,
    small,
    large,
  ]);
  expect(await db.transaction().execute((tx) => wantPlanLimits(tx, staying.projectId))).toBe(0);
  expect(await db.transaction().execute((tx) => wantPlanLimits(tx, randomUUID()))).toBe(0);
});

test("a container without a bound on its disk, as older versions make them, gets its plan's, if that has one", async () => {
  const { db } = world.database;
  const unbounded = { ...small, storage_mb: 0 };
  const [task, build] = [await aTask(unbounded), await aTask(unbounded, "build")];
  // Of another project, and bounded.
  await aTask();
  const queued = async () => {
    await keepHouse(db, log, { previewIdleDays: 0 });
    const items = await db.selectFrom("work_item").select("key").where("kind", "=", applyLimitsKind).execute();
    return items.map(({ key }) => key);
  };
  await db.updateTable("plan").set(unbounded).where("id", "=", planId).execute();
  expect(await queued()).toEqual([]);
  await db.updateTable("plan").set(small).where("id", "=", planId).execute();
  expect(await queued()).toEqual([`limits/${task.projectId}`]);
  expect(await queued()).toHaveLength(1);
  await using _replica = startReplica();
  await until("the container is bounded", async () => (await rowOf(task.id)).storage_mb === small.storage_mb);
  expect(await rowOf(build.id)).toMatchObject(unbounded);
});

test("a container for which all of its limits are set aside, as older versions make them, gives back what its plan does not", async () => {
  const { db } = world.database;
  await db.updateTable("plan").set({ reserved_memory_mb: 48, reserved_cpu_millicores: null }).execute();
  await using _replica = startReplica();
  await using agent = await anIdleAgent();
  const { id } = await running(agent);
  await db.updateTable("task").set({ reserved_memory_mb: null, reserved_cpu_millicores: null }).execute();
  await keepHouse(db, log, { previewIdleDays: 0 });
  const { resources } = await nextOrder(agent, id);
  expect(resources).toMatchObject({ memoryMb: 256, reservedMemoryMb: 48, reservedCpuMillicores: 13, generation: 1n });
  expect(await placementOf(id)).toMatchObject({ memoryMb: 256, reservedMemoryMb: 48, limitsGeneration: 1 });
  await keepHouse(db, log, { previewIdleDays: 0 });
  expect((await rowOf(id)).reserved_memory_mb).toBe(48);
});

test("more than the node has is not given: the timeline says so once, and it is given when room is there", async () => {
  await using _replica = startReplica();
  await using agent = await anIdleAgent();
  const [one, two] = [await running(agent), await running(agent)];
  await change({ memory_mb: 1_200 });
  // One of the two fits into 2048 MB beside the other one as it is.
  const { id: winner } = await until("one of them to get more", async () => {
    const grown = await Promise.all([one, two].map(async (each) => ({ ...each, now: await placementOf(each.id) })));
    return grown.find(({ now }) => now?.memoryMb === 1_200);
  });
  const [first, second] = winner === one.id ? [one, two] : [two, one];
  expect(limitsIn(await nextOrder(agent, first.id))).toEqual([{ ...small, memory_mb: 1_200 }, 1n]);
  await until("the reason", async () => (await eventsOf(second.deploymentId)).length > 0);
  const kept =
    "The plan's limits do not reach a running container: its node has too little memory. It keeps those that it has, until that changes or the next deployment.";
  expect(await eventsOf(second.deploymentId)).toEqual([["limits-kept", kept]]);
  expect(await placementOf(second.id)).toMatchObject({ memoryMb: 256, limitsGeneration: 0 });
  expect((await rowOf(second.id)).refused).toEqual({ "its node has too little memory": 1 });

  await world.database.db.updateTable("task").set({ desired: "removed" }).where("id", "=", first.id).execute();
  const gone = await nextOrder(agent, first.id);
  seq += 1n;
  const item = { placementId: first.id, epoch: gone.epoch, statusSeq: seq, observed: Observed.REMOVED };
  agent.send({ case: "status", value: { batchSeq: seq, items: [item] } });
  expect(limitsIn(await nextOrder(agent, second.id))).toEqual([{ ...small, memory_mb: 1_200 }, 1n]);
  await until("the reason to be taken back", async () => (await rowOf(second.id)).refused === null);
  expect(await eventsOf(second.deploymentId)).toHaveLength(1);
});

test("room that is to become free is not given to others before the agent has said that it is", async () => {
  await using _replica = startReplica();
  await using agent = await anIdleAgent();
  const { id, order } = await running(agent);
  await change({ memory_mb: 2_000 });
  report(agent, await nextOrder(agent, id), { ...small, memory_mb: 2_000 }, 1n);
  await until("the report", () => fleet.observation(node.id, id)?.limits?.memoryMb === 2_000);
  await change({ memory_mb: 128 });
  const less = await nextOrder(agent, id);
  const other = await aTask({ ...small, memory_mb: 1_000 });
  await until("a refusal", async () => (await rowOf(other.id)).refused);
  report(agent, order, { ...small, memory_mb: 2_000 }, less.resources?.generation ?? 0n, "the app uses 1900 MiB");
  await until("the reason", async () => (await rowOf(id)).refused);
  expect((await rowOf(id)).refused).toEqual({ "the app uses 1900 MiB": 1 });
  expect((await rowOf(other.id)).node_id).toBeNull();
  report(agent, order, { ...small, memory_mb: 128 }, less.resources?.generation ?? 0n);
  expect(limitsIn(await nextOrder(agent, other.id))[0].memory_mb).toBe(1_000);
  await until("the reason to be taken back", async () => (await rowOf(id)).refused === null);
});

test("an agent that does not tell what its containers have is not asked to change them", async () => {
  await using _replica = startReplica();
  await using agent = await anIdleAgent();
  const task = await aTask();
  report(agent, await nextOrder(agent, task.id), null);
  await until("the report", () => fleet.observation(node.id, task.id)?.observed === "running");
  await change(large);
  await until("the reason", async () => (await eventsOf(task.deploymentId)).length > 0);
  expect(await placementOf(task.id)).toMatchObject({ memoryMb: 256, limitsGeneration: 0 });
  expect(agent.waiting("assign")).toBe(0);
  // Its machine gets a newer version.
  report(agent, { ...(await loadPlacement(task.id)), epoch: BigInt((await placementOf(task.id))?.epoch ?? 0) }, small);
  expect(limitsIn(await nextOrder(agent, task.id))).toEqual([large, 1n]);
});

test("nothing is lost when nobody is there to carry it out, or whoever is dies on the way", async () => {
  const first = startReplica();
  await using agent = await anIdleAgent();
  const { id } = await running(agent);
  await first[Symbol.asyncDispose]();
  await change(large);
  // A worker died right after it had said what is wanted.
  const { project_id } = await rowOf(id);
  await world.database.db.transaction().execute((tx) => wantPlanLimits(tx, project_id));
  expect(await placementOf(id)).toMatchObject({ memoryMb: 256 });
  await using _one = startReplica();
  await using _two = startReplica();
  expect(limitsIn(await nextOrder(agent, id))).toEqual([large, 1n]);
});
