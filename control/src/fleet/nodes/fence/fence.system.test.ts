import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../../stores/etcd/testing.ts";
import { keys } from "../../cluster/keys.ts";
import { fleetView } from "../../view.ts";
import { actOnNode } from "../actions/act.ts";
import { startTestFleet, type TestFleet } from "../testing.ts";
import { clearGone } from "./fence.ts";
import { noteFenceRequired } from "./required.ts";

let world: TestFleet;
beforeAll(async () => {
  world = await startTestFleet();
});
afterAll(() => world[Symbol.asyncDispose]());

const session = {
  ...{ serverId: "s1", instanceId: "i1", bootId: "b1", address: "127.0.9.1", version: "0.1.0", labels: {} },
  ...{ connectedAt: new Date().toISOString(), reconciled: true },
  ...{ capacity: { memoryMb: 1, cpuMillicores: 1, pids: 1, diskMb: 1 } },
  platform: { os: "linux", architecture: "amd64" },
};
const applied = { generation: 1, digest: "", error: null, behindHosts: [], at: new Date().toISOString() };

test("of a fenced node nothing is left that could speak for it, and what it may have run is never run again", async () => {
  const [gone, kept] = [await world.newNode({ lifecycle: "fenced", schedulable: false }), await world.newNode()];
  const deployments = {
    offered: await world.newDeployment("deploying"),
    granted: await world.newDeployment("deploying"),
    exited: await world.newDeployment("deploying"),
    other: await world.newDeployment("deploying"),
  };
  const runs = {
    offered: await world.run(gone.id, deployments.offered, "offered"),
    granted: await world.run(gone.id, deployments.granted, "granted"),
    exited: await world.run(gone.id, deployments.exited, "exited"),
  };
  const other = await world.run(kept.id, deployments.other, "granted");
  for (const { id } of [gone, kept]) await world.put(keys.nodeSession(id), session);
  const stopped = await world.place(gone.id, await world.newDeployment("stopped"), "serve", "stopped");
  await until(
    "all of it to be seen",
    () => world.fleet.nodeSession(gone.id) && world.fleet.findRun(other) && world.fleet.findPlacement(stopped),
  );

  await clearGone(world.deps);
  // Once more at once by two leaders, as after a crash.
  await Promise.all([clearGone(world.deps), clearGone(world.deps)]);
  expect(await world.etcd.get(keys.nodeSession(gone.id))).toBeNull();
  expect(await world.etcd.get(keys.nodeSession(kept.id))).not.toBeNull();
  expect(await world.readRun(gone.id, runs.granted)).toMatchObject({ state: "indeterminate", token: "t" });
  expect(await world.readRun(gone.id, runs.offered)).toMatchObject({ state: "not_started" });
  expect(await world.readRun(gone.id, runs.exited)).toMatchObject({ state: "exited" });
  expect(await world.readRun(kept.id, other)).toMatchObject({ state: "granted" });
  const task = await world.api.db
    .selectFrom("task")
    .select("desired")
    .where("id", "=", stopped)
    .executeTakeFirstOrThrow();
  expect(task.desired).toBe("removed");
});

test("a machine that is back is not fenced by who has not heard of it yet", async () => {
  const { etcd, fleet, api } = world;
  const node = await world.newNode();
  const view = fleetView(fleet, { memory: { hints: null }, etcd });
  const behind = { ...view, nodeLink: () => ({ link: "unreachable", since: new Date(0) }) as const };
  const words = { reason: "the rack burned" };
  const fence = () =>
    api.db
      .transaction()
      .execute((tx) => actOnNode(tx, behind, node.id, "force-fence", { words, confirm: true, now: new Date() }));
  await world.put(keys.server(session.serverId), { serverId: session.serverId, startedAt: session.connectedAt });
  await world.put(keys.nodeSession(node.id), session);
  expect(await fence()).toMatchObject({ problem: expect.stringMatching(/drain it instead/) });
  await etcd.txn({ guards: [], ops: [{ delete: { key: keys.nodeSession(node.id) } }] });
  await until("its session to be gone", () => fleet.nodeSession(node.id) === null);
  expect(await fence()).toMatchObject({ node: { lifecycle: "fenced" } });
});

test("of a removed edge nobody hears any more either", async () => {
  const edge = await world.newNode({ role: "edge", lifecycle: "removed", schedulable: false });
  await world.put(keys.edgeSession(edge.id), session);
  await world.put(keys.edgeApplied(edge.id), applied);
  await until("it to be seen", () => world.fleet.edgeSession(edge.id) && world.fleet.edgeApplied(edge.id));
  await clearGone(world.deps);
  expect(await world.etcd.get(keys.edgeSession(edge.id))).toBeNull();
  expect(await world.etcd.get(keys.edgeApplied(edge.id))).toBeNull();
});

test("a deployment whose command may run on a node that does not answer is told that it must be fenced, once", async () => {
  const lost = await world.newNode();
  const deployments = [await world.newDeployment("deploying"), await world.newDeployment("deploying")] as const;
  const [waiting, notStarted] = [
    await world.run(lost.id, deployments[0], "granted"),
    await world.run(lost.id, deployments[1], "accepted"),
  ];
  await until("the runs to be seen", () => world.fleet.findRun(waiting) && world.fleet.findRun(notStarted));
  await Promise.all([noteFenceRequired(world.deps), noteFenceRequired(world.deps)]);
  await noteFenceRequired(world.deps);
  const lines = await world.api.db
    .selectFrom("deployment_event")
    .select(["deployment_id", "phase", "detail"])
    .where(
      "deployment_id",
      "in",
      deployments.map(({ id }) => id),
    )
    .execute();
  expect(lines).toEqual([
    {
      deployment_id: deployments[0].id,
      phase: "fence-required",
      detail: expect.stringMatching(/^NODE_FENCE_REQUIRED: .*administrator/),
    },
  ]);
});
