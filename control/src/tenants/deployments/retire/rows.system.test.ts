import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryStage, postgresStage, type Stage } from "../testing/memory/stage.ts";

/* What ends of deployments may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of retirements in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  /** A deployment of a site, and what has production. */
  async function replaced({
    status = "superseded" as "superseded" | "stopped" | "failed",
    drainSeconds = 60,
    next = "serves" as "serves" | "stopped" | "nothing",
  } = {}) {
    const { projectId, host } = await stage.newProject();
    const deploymentId = await stage.newDeployment(projectId, { status, drainSeconds });
    const other = next === "nothing" ? null : await stage.newDeployment(projectId, { status: "running" });
    await stage.point(projectId, { deploymentId: other, stopped: next === "stopped" });
    const taskId = await stage.newTask(deploymentId);
    return { projectId, host, deploymentId, taskId };
  }

  test("what serves is known from what leaves, and of that what it has on nodes and where visitors reach it", async () => {
    const { projectId, host, deploymentId, taskId } = await replaced();
    await stage.newTask(deploymentId, { replica: 1, desired: "removed" });
    const found = await stage.retire.find(deploymentId);
    expect(found).toMatchObject({ serves: false, builds: [], hosts: [host] });
    expect(found?.containers.map(({ id, node_id }) => ({ id, node_id }))).toEqual([{ id: taskId, node_id: null }]);
    await stage.point(projectId, { deploymentId, stopped: true });
    expect(await stage.retire.find(deploymentId)).toMatchObject({ serves: false });
    await stage.point(projectId, { deploymentId, stopped: false });
    expect(await stage.retire.find(deploymentId)).toMatchObject({ serves: true });
  });

  test("without containers nothing is left, and what is gone is not found", async () => {
    const { projectId } = await stage.newProject();
    const deploymentId = await stage.newDeployment(projectId, { status: "failed" });
    expect(await stage.retire.find(deploymentId)).toMatchObject({ serves: false, builds: [], containers: [] });
    expect(await stage.retire.find("7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11")).toBeNull();
  });

  test("edges that visitors may reach are those in rotation", async () => {
    const [edge, cordoned] = [await stage.newEdge(), await stage.newEdge({ schedulable: false })];
    const edges = await stage.retire.edges();
    expect(edges).toContain(edge);
    expect(edges).not.toContain(cordoned);
  });

  test("how long it has drained is counted from the first question, of each item by itself", async () => {
    const { deploymentId } = await replaced();
    const key = `retire/${deploymentId}`;
    const [one, other] = [
      await stage.enqueue("retire", key, { deploymentId }),
      await stage.enqueue("retire", key, { deploymentId }),
    ];
    expect(await stage.retire.drainedForMs(one)).toBe(0);
    await expect.poll(() => stage.retire.drainedForMs(one), { timeout: 20_000 }).toBeGreaterThan(0);
    expect(await stage.retire.drainedForMs(other)).toBe(0);
    await expect(stage.retire.drainedForMs(1_000_000)).rejects.toThrow();
  });

  test.each([
    { of: { status: "superseded", next: "serves" }, drainSeconds: 55 },
    { of: { status: "superseded", next: "stopped" }, drainSeconds: 0 },
    { of: { status: "superseded", next: "nothing" }, drainSeconds: 0 },
    { of: { status: "stopped", next: "serves" }, drainSeconds: 0 },
    { of: { status: "failed", next: "serves" }, drainSeconds: 0 },
  ] as const)(
    "containers of one that is $of.status while production $of.next have $drainSeconds s left",
    async ({ of, drainSeconds }) => {
      const { deploymentId, taskId } = await replaced(of);
      await stage.retire.drain(deploymentId, [taskId], 5_000);
      expect(await stage.tasksOf(deploymentId)).toEqual([{ id: taskId, replica: 0, desired: "removed", drainSeconds }]);
      // Again, as a worker would that did not hear of it: the time does not become longer.
      await stage.retire.drain(deploymentId, [taskId], 0);
      expect(await stage.tasksOf(deploymentId)).toMatchObject([{ desired: "removed", drainSeconds }]);
    },
  );

  test("whoever suspends wants it to be over", async () => {
    const { projectId, deploymentId, taskId } = await replaced();
    await stage.suspend(projectId);
    await stage.retire.drain(deploymentId, [taskId], 0);
    expect(await stage.tasksOf(deploymentId)).toMatchObject([{ desired: "removed", drainSeconds: 0 }]);
  });

  test("what serves nobody goes at once", async () => {
    const { deploymentId, taskId } = await replaced();
    await stage.retire.remove([]);
    expect(await stage.tasksOf(deploymentId)).toMatchObject([{ desired: "running" }]);
    await stage.retire.remove([taskId]);
    expect(await stage.tasksOf(deploymentId)).toMatchObject([{ desired: "removed", drainSeconds: 0 }]);
  });
});
