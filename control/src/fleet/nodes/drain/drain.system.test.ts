import { afterAll, beforeAll, expect, test } from "vitest";
import type { Node } from "../../../stores/db/tables.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { keys } from "../../cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../testing.ts";
import { drainOnce } from "./drain.ts";

let world: TestFleet;
beforeAll(async () => {
  world = await startTestFleet();
});
afterAll(() => world[Symbol.asyncDispose]());

const inAnHour = () => new Date(Date.now() + 3_600_000);
const aMomentAgo = () => new Date(Date.now() - 1_000);
const draining = (drain_deadline = inAnHour()) =>
  world.newNode({ drain: "draining", schedulable: false, drain_deadline });
const rowOf = ({ id }: Node) =>
  world.api.db.selectFrom("node").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
/** What a node holds and what it says of it come by two watches, in any order. */
const held = ({ id }: Node, taskId: string) =>
  until("the view to show it", () => world.fleet.findPlacement(taskId) && world.fleet.observation(id, taskId));
const phasesOf = async (deploymentId: string) =>
  (
    await world.api.db
      .selectFrom("deployment_event")
      .select("phase")
      .where("deployment_id", "=", deploymentId)
      .orderBy("id")
      .execute()
  ).map(({ phase }) => phase);

test("a node is drained once it holds nothing that is not over", async () => {
  const node = await draining();
  const taskId = await world.place(node.id, await world.newDeployment("running"), "serve");
  await held(node, taskId);
  await drainOnce(world.deps);
  expect((await rowOf(node)).drain).toBe("draining");
  await world.observe(node.id, taskId, "stopped");
  await until("its end to be seen", () => world.fleet.observation(node.id, taskId)?.observed === "stopped");
  await Promise.all([drainOnce(world.deps), drainOnce(world.deps)]);
  expect((await rowOf(node)).drain).toBe("drained");
  // Two leaders at once, and it is told once.
  expect(await world.eventsOf(node.id)).toEqual(["drained"]);

  const late = await world.place(node.id, await world.newDeployment("running"), "serve");
  await held(node, late);
  await drainOnce(world.deps);
  expect((await rowOf(node)).drain).toBe("draining");
});

test("a command that was not started is taken back at once, and one that may run goes on until the deadline", async () => {
  const node = await draining();
  const [waiting, started] = [await world.newDeployment("deploying"), await world.newDeployment("deploying")];
  const offered = await world.run(node.id, waiting, "accepted");
  const granted = await world.run(node.id, started, "granted");
  await until("the runs to be seen", () => world.fleet.findRun(offered) && world.fleet.findRun(granted));
  await drainOnce(world.deps);
  expect(await world.readRun(node.id, offered)).toMatchObject({ cancel: true, state: "accepted" });
  expect(await world.readRun(node.id, granted)).toMatchObject({ cancel: false });

  await world.api.db.updateTable("node").set({ drain_deadline: aMomentAgo() }).where("id", "=", node.id).execute();
  await drainOnce(world.deps);
  // Once more, as a leader would that died before it saw what it had done.
  await drainOnce(world.deps);
  expect(await world.readRun(node.id, granted)).toMatchObject({ cancel: true, state: "granted" });
  expect(await phasesOf(started.id)).toEqual(["release-ended"]);
  expect(await phasesOf(waiting.id)).toEqual([]);
});

test("at the deadline builds begin anew elsewhere, sites stay, and the drain says that it needs help", async () => {
  const node = await draining(aMomentAgo());
  const [building, serving] = [await world.newDeployment("building"), await world.newDeployment("running")];
  const build = await world.place(node.id, building, "build");
  const site = await world.place(node.id, serving, "serve");
  await held(node, build);
  await held(node, site);
  await drainOnce(world.deps);
  expect((await rowOf(node)).drain).toBe("deadline");
  expect(await world.eventsOf(node.id)).toEqual(["drain-deadline"]);
  const tasks = await world.api.db
    .selectFrom("task")
    .select(["id", "desired"])
    .where("node_id", "=", node.id)
    .execute();
  expect(Object.fromEntries(tasks.map(({ id, desired }) => [id, desired]))).toEqual({
    [build]: "removed",
    [site]: "running",
  });
  expect(await phasesOf(building.id)).toEqual(["task-abandoned"]);

  for (const taskId of [build, site])
    await world.etcd.txn({ guards: [], ops: [{ delete: { key: keys.placement(node.id, taskId) } }] });
  await until("both to be gone", () => [build, site].every((id) => world.fleet.findPlacement(id) === null));
  await drainOnce(world.deps);
  expect((await rowOf(node)).drain).toBe("drained");
});

test("at the deadline what is open on replaced containers ends, and not before", async () => {
  const node = await draining();
  const taskId = await world.place(node.id, await world.newDeployment("superseded"), "serve", "removed", 3_600);
  await held(node, taskId);
  const left = async () =>
    (await world.api.db.selectFrom("task").select("drain_seconds").where("id", "=", taskId).executeTakeFirstOrThrow())
      .drain_seconds;
  await drainOnce(world.deps);
  expect(await left()).toBe(3_600);
  await world.api.db.updateTable("node").set({ drain_deadline: aMomentAgo() }).where("id", "=", node.id).execute();
  await drainOnce(world.deps);
  expect(await left()).toBe(0);
});

test("what was decided for a drain that was cancelled meanwhile is not done", async () => {
  const node = await draining(aMomentAgo());
  const building = await world.newDeployment("building");
  const build = await world.place(node.id, building, "build");
  await held(node, build);
  // The administrator holds the row when the round has decided; then the drain is another one.
  let round: Promise<void> | undefined;
  await world.api.db.transaction().execute(async (tx) => {
    await tx.selectFrom("node").select("id").where("id", "=", node.id).forUpdate().execute();
    round = drainOnce(world.deps);
    await until("the round to wait", async () => (await lockWaits(world.api.db)) > 0);
    await tx
      .updateTable("node")
      .set({ drain: "none", drain_generation: 1, drain_deadline: null })
      .where("id", "=", node.id)
      .execute();
  });
  await round;
  expect((await rowOf(node)).drain).toBe("none");
  const task = await world.api.db
    .selectFrom("task")
    .select("desired")
    .where("id", "=", build)
    .executeTakeFirstOrThrow();
  expect(task.desired).toBe("running");
  expect(await world.eventsOf(node.id)).toEqual([]);
});
