import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryStage, postgresStage, type Stage } from "../testing/memory/stage.ts";
import type { LifecyclePayload } from "./rows.ts";

/* What stops and starts may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of lifecycles in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  /** A site whose production leads to a deployment. */
  async function served(
    status: "deploying" | "running" | "stopped",
    { replicas = 1, stopped = status === "stopped" } = {},
  ) {
    const { projectId, host } = await stage.newProject();
    const deploymentId = await stage.newDeployment(projectId, { status, replicas });
    await stage.point(projectId, { deploymentId, stopped });
    return { projectId, deploymentId, host };
  }
  const ask = async (payload: LifecyclePayload) => ({
    id: await stage.enqueue("lifecycle", `lifecycle/${payload.projectId}`, payload),
    payload,
  });
  const slotsOf = async (deploymentId: string, desired: "running" | "removed") =>
    (await stage.tasksOf(deploymentId)).filter((task) => task.desired === desired).map(({ replica }) => replica);

  describe("whoever asks", () => {
    test("has what serves stopped, and what is on its way held, whatever the stop finds later", async () => {
      const { projectId, deploymentId } = await served("running");
      const next = await stage.newDeployment(projectId, { status: "building" });
      const over = await stage.newDeployment(projectId, { status: "failed" });
      const asked = await stage.request(projectId, "stop");
      expect(asked.deploymentId).toBe(deploymentId);
      // Again, while it waits.
      expect(await stage.request(projectId, "stop")).toMatchObject({ workId: asked.workId });
      expect(await Promise.all([deploymentId, next, over].map(stage.isHeld))).toEqual([false, true, false]);
      expect((await stage.look(next)).lines).toEqual(["stop-requested"]);
    });

    test("has what is stopped started, with what it held, and forgets what an earlier start said", async () => {
      const stopped = await served("stopped");
      const { projectId, deploymentId } = stopped;
      const next = await stage.newDeployment(projectId, { status: "deploying", isHeld: true });
      await stage.lifecycle.fail(stopped, "It did not answer.");
      const asked = await stage.request(projectId, "start");
      expect(asked.deploymentId).toBe(deploymentId);
      expect(await stage.look(deploymentId)).toMatchObject({ status: "stopped", error: null });
      // Work that waits is not begun anew, unless it has come to nothing by now: it ends by that.
      expect(await stage.request(projectId, "start")).toMatchObject({ workId: asked.workId });
      await stage.lifecycle.fail(stopped, "It did not answer again.");
      const again = await stage.request(projectId, "start");
      expect(again.workId).not.toBe(asked.workId);
      expect(await stage.look(deploymentId)).toMatchObject({ error: null });
      expect(await stage.isHeld(next)).toBe(false);
      expect((await stage.look(next)).lines).toEqual(["start-requested"]);
    });

    test("is refused where there is nothing to stop or to start", async () => {
      const [running, stopped, first] = [await served("running"), await served("stopped"), await served("deploying")];
      const { projectId } = await stage.newProject();
      for (const id of [stopped.projectId, first.projectId, projectId])
        await expect(stage.request(id, "stop")).rejects.toMatchObject({ code: "STOP_UNAVAILABLE" });
      for (const id of [running.projectId, first.projectId, projectId])
        await expect(stage.request(id, "start")).rejects.toMatchObject({ code: "START_UNAVAILABLE" });
    });

    test("may stop what takes the traffic over at this moment", async () => {
      const { projectId } = await served("running");
      const next = await stage.newDeployment(projectId, { status: "deploying" });
      await stage.point(projectId, { deploymentId: next, stopped: false });
      expect(await stage.request(projectId, "stop")).toMatchObject({ deploymentId: next });
      expect(await stage.isHeld(next)).toBe(true);
    });
  });

  describe("what it is about", () => {
    test("a stop is about what has production now, and says whether it covers that", async () => {
      const { projectId, deploymentId: asked, host } = await served("running");
      const [edge, cordoned] = [await stage.newEdge(), await stage.newEdge({ schedulable: false })];
      const item = await ask({ projectId, action: "stop", deploymentId: asked });
      const found = await stage.lifecycle.find(item);
      expect(found).toMatchObject({
        ...{ projectId, deploymentId: asked, status: "running", projectGone: false, suspended: false, error: null },
        ...{ isCovered: true, hosts: [host], app: null, retiring: false, channel: { stopped: false } },
      });
      expect(found?.edges).toContain(edge);
      expect(found?.edges).not.toContain(cordoned);
      expect(found?.now.getTime()).toBeGreaterThanOrEqual(found?.askedAt.getTime() ?? Number.POSITIVE_INFINITY);
      const later = await stage.newDeployment(projectId, { status: "running" });
      await stage.point(projectId, { deploymentId: later, stopped: false });
      expect(await stage.lifecycle.find(item)).toMatchObject({ deploymentId: later, isCovered: false });
      const held = await stage.newDeployment(projectId, { status: "running", isHeld: true });
      await stage.point(projectId, { deploymentId: held, stopped: false });
      expect(await stage.lifecycle.find(item)).toMatchObject({ deploymentId: held, isCovered: true });
    });

    test("a stop covers what served before what was asked for, and has production again", async () => {
      const { projectId, deploymentId: before } = await served("running");
      const asked = await stage.newDeployment(projectId, { status: "failed" });
      const found = await stage.lifecycle.find(await ask({ projectId, action: "stop", deploymentId: asked }));
      expect(found).toMatchObject({ deploymentId: before, isCovered: true });
    });

    test("a start is about what was asked for, whatever has production", async () => {
      const { projectId, deploymentId } = await served("stopped", { replicas: 2 });
      const [up, gone] = [
        await stage.newTask(deploymentId, { replica: 1 }),
        await stage.newTask(deploymentId, { desired: "removed" }),
      ];
      const item = await ask({ projectId, action: "start", deploymentId });
      const found = await stage.lifecycle.find(item);
      expect(found).toMatchObject({ deploymentId, status: "stopped", retiring: false, channel: { stopped: true } });
      expect(found?.app).toMatchObject({ replicas: 2, healthTimeoutSeconds: 30 });
      expect(found?.app?.tasks.map(({ id, replica, desired }) => ({ id, replica, desired }))).toEqual([
        { id: up, replica: 1, desired: "running" },
        { id: gone, replica: 0, desired: "removed" },
      ]);
      expect(found?.app?.tasks[0]).toMatchObject({ node_id: null, refused: null });
      await stage.enqueue("retire", `retire/${deploymentId}`, { deploymentId });
      await stage.suspend(projectId);
      expect(await stage.lifecycle.find(item)).toMatchObject({ retiring: true, suspended: true });
      const other = await stage.newDeployment(projectId, { status: "running" });
      await stage.point(projectId, { deploymentId: other, stopped: false });
      expect(await stage.lifecycle.find(item)).toMatchObject({ deploymentId, channel: null });
    });

    test("there may be nothing that it could be about", async () => {
      const { projectId } = await stage.newProject();
      const deploymentId = await stage.newDeployment(projectId, { status: "canceled" });
      const item = await ask({ projectId, action: "stop", deploymentId });
      expect(await stage.lifecycle.find(item)).toBeNull();
      await stage.point(projectId, { deploymentId: null, stopped: false });
      expect(await stage.lifecycle.find(item)).toBeNull();
    });
  });

  describe("a stop", () => {
    test("shows the page of what runs, and of nothing else", async () => {
      const running = await served("running");
      for (const _ of [1, 2]) await stage.lifecycle.close(running);
      expect(await stage.channelOf(running.projectId)).toEqual({ deploymentId: running.deploymentId, stopped: true });
      expect(await stage.look(running.deploymentId)).toMatchObject({ status: "running" });
      const deploying = await served("deploying");
      await stage.lifecycle.close(deploying);
      expect(await stage.channelOf(deploying.projectId)).toMatchObject({ stopped: false });
      // Another one has taken its channel over.
      const replaced = await served("running");
      const next = await stage.newDeployment(replaced.projectId, { status: "deploying" });
      await stage.point(replaced.projectId, { deploymentId: next, stopped: false });
      await stage.lifecycle.close(replaced);
      expect(await stage.channelOf(replaced.projectId)).toEqual({ deploymentId: next, stopped: false });
    });

    test("is told once, and what was replaced ends with it; its own containers wait for edges", async () => {
      const running = await served("running", { stopped: true });
      const { projectId, deploymentId } = running;
      const before = await stage.newDeployment(projectId, { status: "superseded" });
      await stage.newTask(before, { desired: "removed", drainSeconds: 60 });
      await stage.newTask(deploymentId);
      const told = await Promise.all([1, 2].map(() => stage.lifecycle.stopped(running)));
      expect(told.sort()).toEqual([false, true]);
      expect(await stage.look(deploymentId)).toEqual({ status: "stopped", error: null, lines: ["stopped"] });
      expect(await stage.isRetiring(deploymentId)).toBe(true);
      expect(await stage.tasksOf(before)).toMatchObject([{ desired: "removed", drainSeconds: 0 }]);
      expect(await slotsOf(deploymentId, "running")).toEqual([0]);
    });
  });

  describe("a start", () => {
    test("fills the slots that are empty, as far as they were asked for", async () => {
      const stopped = await served("stopped", { replicas: 3 });
      const { deploymentId } = stopped;
      const lost = await stage.newTask(deploymentId, { replica: 0 });
      await stage.newTask(deploymentId, { replica: 1 });
      const what = { slots: [0, 1], abandoned: [{ taskId: lost, why: "Its node was lost." }] };
      await stage.lifecycle.make(stopped, what);
      expect((await slotsOf(deploymentId, "running")).sort()).toEqual([0, 1]);
      expect(await slotsOf(deploymentId, "removed")).toEqual([0]);
      expect((await stage.look(deploymentId)).lines).toEqual(["task-abandoned"]);
      await stage.lifecycle.make(stopped, { slots: [0, 1, 2], abandoned: [] });
      await stage.lifecycle.make(stopped, { slots: [0, 1, 2], abandoned: [] });
      expect((await slotsOf(deploymentId, "running")).sort()).toEqual([0, 1, 2]);
    });

    test("makes nothing for what is not stopped, has not its channel, or is suspended", async () => {
      const running = await served("running");
      const replaced = await served("stopped");
      const next = await stage.newDeployment(replaced.projectId, { status: "deploying" });
      await stage.point(replaced.projectId, { deploymentId: next, stopped: false });
      const suspended = await served("stopped");
      await stage.suspend(suspended.projectId);
      for (const of of [running, replaced, suspended]) {
        await stage.lifecycle.make(of, { slots: [0], abandoned: [] });
        expect(await stage.tasksOf(of.deploymentId)).toEqual([]);
      }
    });

    test("shows the site of what is stopped, unless it is suspended", async () => {
      const stopped = await served("stopped");
      await stage.lifecycle.open(stopped);
      expect(await stage.channelOf(stopped.projectId)).toMatchObject({ stopped: false });
      for (const of of [await served("running", { stopped: true }), await served("stopped")]) {
        await stage.suspend(of.projectId);
        await stage.lifecycle.open(of);
        expect(await stage.channelOf(of.projectId)).toMatchObject({ stopped: true });
      }
    });

    test("is told once, and forgets what an earlier one said", async () => {
      const stopped = await served("stopped", { stopped: false });
      await stage.lifecycle.fail(stopped, "It did not answer.");
      const told = await Promise.all([1, 2].map(() => stage.lifecycle.started(stopped, null)));
      expect(told.sort()).toEqual([false, true]);
      expect(await stage.look(stopped.deploymentId)).toEqual({
        ...{ status: "running", error: null, lines: ["start-failed", "started"] },
      });
    });

    test("that fails leaves the page and no containers, and says why", async () => {
      const stopped = await served("stopped", { replicas: 2 });
      await stage.newTask(stopped.deploymentId);
      await stage.lifecycle.fail(stopped, "It did not answer.");
      expect(await stage.channelOf(stopped.projectId)).toMatchObject({ stopped: true });
      expect(await stage.tasksOf(stopped.deploymentId)).toMatchObject([{ desired: "removed", drainSeconds: 0 }]);
      expect(await stage.isRetiring(stopped.deploymentId)).toBe(false);
      expect(await stage.look(stopped.deploymentId)).toMatchObject({ status: "stopped", error: "It did not answer." });
      const running = await served("running");
      await stage.lifecycle.fail(running, "It did not answer.");
      expect(await stage.look(running.deploymentId)).toEqual({ status: "running", error: null, lines: [] });
    });

    test("that fails after visitors were let in keeps its containers until edges show the page", async () => {
      const opened = await served("stopped", { stopped: false });
      await stage.newTask(opened.deploymentId);
      await stage.lifecycle.fail(opened, "It fell over.");
      expect(await stage.channelOf(opened.projectId)).toMatchObject({ stopped: true });
      expect(await slotsOf(opened.deploymentId, "running")).toEqual([0]);
      expect(await stage.isRetiring(opened.deploymentId)).toBe(true);
    });
  });
});
