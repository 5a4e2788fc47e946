import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunValue } from "../../fleet/cluster/keys.ts";
import type { DeployRow, Failure } from "./rows.ts";
import { memoryStage, type NewDeployment, postgresStage, type Stage } from "./testing/memory/stage.ts";

/* What deploys may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

const at = new Date("2026-01-01T00:00:00Z");

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of deploys in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  const find = async (id: string): Promise<DeployRow> => {
    const found = await stage.deploys.find(id);
    if (found === null) throw new Error("it is gone");
    return found;
  };
  async function made(values: Partial<NewDeployment> = {}) {
    const { projectId, host } = await stage.newProject();
    const id = await stage.newDeployment(projectId, { status: "deploying", ...values });
    return { projectId, host, id, of: await find(id) };
  }
  /** Beside a deployment that runs, or would after a start, and has production. */
  async function following(status: "running" | "stopped", values: Partial<NewDeployment> = {}) {
    const { projectId } = await stage.newProject();
    const before = await stage.newDeployment(projectId, { status });
    await stage.point(projectId, { deploymentId: before, stopped: status === "stopped" });
    const id = await stage.newDeployment(projectId, { status: "deploying", ...values });
    return { projectId, before, id, of: await find(id) };
  }
  const statusOf = async (id: string) => (await stage.look(id)).status;
  const failure: Failure = {
    ...{ code: "APP_HEALTH_TIMEOUT", text: "It did not answer.", errorCode: "APP_HEALTH_TIMEOUT" },
    ...{ release: { release_status: "not_configured" }, outcome: null },
  };

  describe("what is found", () => {
    test("is the deployment with what it has; its route only once its channel leads to it", async () => {
      const { projectId, host, id, of } = await made({ replicas: 2 });
      const edge = await stage.newEdge();
      const taskId = await stage.newTask(id, { replica: 1 });
      expect(of).toMatchObject({
        ...{ id, projectId, type: "ssr", status: "deploying", cancelRequested: false, held: false, suspended: false },
        ...{ projectGone: false, overtaken: false, artifact: { kind: "image" }, replicas: 2, healthTimeoutSeconds: 30 },
        ...{ release: { timeoutSeconds: null, status: "not_configured" }, attempt: null, activatedAt: null },
        ...{ hosts: [], edges: [], tasks: [], replacesContainers: false },
      });
      await stage.point(projectId, { deploymentId: id, stopped: false });
      const active = await find(id);
      expect(active).toMatchObject({ hosts: [host], activatedAt: expect.any(Date) });
      expect(active.edges).toContain(edge);
      expect(active.tasks).toMatchObject([
        { id: taskId, kind: "serve", replica: 1, desired: "running", node_id: null },
      ]);
      await stage.cancel(id);
      await stage.suspend(projectId);
      expect(await find(id)).toMatchObject({ cancelRequested: true, suspended: true });
      expect(await stage.deploys.find(randomUUID())).toBeNull();
    });

    test("knows while it is queued whether a later one is on its way", async () => {
      const { projectId, id } = await made({ status: "queued" });
      expect(await find(id)).toMatchObject({ overtaken: false });
      const later = await stage.newDeployment(projectId, { status: "failed" });
      expect(await find(id)).toMatchObject({ overtaken: false });
      await stage.newDeployment(projectId, { status: "building" });
      expect(await find(id)).toMatchObject({ overtaken: true });
      expect(await find(later)).toMatchObject({ overtaken: false });
    });

    test("knows what gives room back only where room is missing", async () => {
      const { before, id } = await following("running");
      const taskId = await stage.newTask(id);
      expect(await find(id)).toMatchObject({ replacesContainers: false });
      await stage.refuse(taskId);
      expect(await find(id)).toMatchObject({ replacesContainers: true, tasks: [{ refused: { cordoned: 1 } }] });
      expect(await statusOf(before)).toBe("running");
    });

    test("what drains in its project is known, and ends when it is asked to", async () => {
      const { before, of } = await following("running");
      expect(await stage.deploys.isDraining(of)).toBe(false);
      await stage.newTask(before, { desired: "removed", drainSeconds: 60 });
      expect(await stage.deploys.isDraining(of)).toBe(true);
      for (const _ of [1, 2]) await stage.deploys.endDrains(of);
      expect(await stage.deploys.isDraining(of)).toBe(false);
    });

    test("its end is asked for by whoever cancels it or suspends its project", async () => {
      const [canceled, suspended] = [await made(), await made()];
      expect(await stage.deploys.isEndAskedFor(canceled.id)).toBe(false);
      await stage.cancel(canceled.id);
      await stage.suspend(suspended.projectId);
      expect(await stage.deploys.isEndAskedFor(canceled.id)).toBe(true);
      expect(await stage.deploys.isEndAskedFor(suspended.id)).toBe(true);
      expect(await stage.deploys.isEndAskedFor(randomUUID())).toBe(true);
    });
  });

  test("one that has its artifact is deployed as soon as it is claimed, and once", async () => {
    const { id, of } = await made({ status: "queued" });
    for (const _ of [1, 2]) await stage.deploys.claim(of, at);
    expect(await stage.look(id)).toMatchObject({ status: "deploying", lines: ["claimed", "artifact-ready"] });
    const building = await made({ status: "building" });
    for (const _ of [1, 2]) await stage.deploys.beginDeploying(building.of);
    expect(await stage.look(building.id)).toMatchObject({ status: "deploying", lines: ["artifact-ready"] });
  });

  describe("containers", () => {
    test("fill the slots that are empty, as far as they were asked for", async () => {
      const { id, of } = await made({ replicas: 3 });
      const lost = await stage.newTask(id, { replica: 0 });
      await stage.deploys.createServe(of, { slots: [0, 1], abandoned: [{ taskId: lost, why: "Its node was lost." }] });
      await stage.deploys.createServe(of, { slots: [0, 1], abandoned: [] });
      const tasks = await stage.tasksOf(id);
      expect(tasks.filter(({ desired }) => desired === "running").map(({ replica }) => replica)).toEqual([0, 1]);
      expect(tasks.find((task) => task.id === lost)).toMatchObject({ desired: "removed", drainSeconds: 0 });
      expect((await stage.look(id)).lines).toEqual(["task-abandoned", "starting"]);
    });

    test("are made for nobody whose channel leads to it already, who is over, or is suspended", async () => {
      const [active, over, suspended] = [await made(), await made({ status: "canceled" }), await made()];
      await stage.point(active.projectId, { deploymentId: active.id, stopped: false });
      await stage.suspend(suspended.projectId);
      for (const { id, of } of [active, over, suspended]) {
        await stage.deploys.createServe(of, { slots: [0], abandoned: [] });
        expect(await stage.tasksOf(id)).toEqual([]);
      }
    });
  });

  describe("the channel", () => {
    test("leads to what is to have it", async () => {
      const { projectId, id, of } = await following("stopped");
      for (const _ of [1, 2]) await stage.deploys.activate(of);
      expect(await stage.channelOf(projectId)).toEqual({ deploymentId: id, stopped: false });
      expect(await find(id)).toMatchObject({ activatedAt: expect.any(Date) });
    });

    test("stays with what was before while the other one is held, canceled, suspended or over", async () => {
      const held = await following("running", { isHeld: true });
      const [canceled, suspended] = [await following("running"), await following("running")];
      await stage.cancel(canceled.id);
      await stage.suspend(suspended.projectId);
      const over = await following("running", { status: "failed" });
      for (const { projectId, before, of } of [held, canceled, suspended, over]) {
        await stage.deploys.activate(of);
        expect(await stage.channelOf(projectId)).toEqual({ deploymentId: before, stopped: false });
      }
    });

    test("shows the page for what a stop covers, once it is ready, and what was before goes", async () => {
      const { projectId, before, id, of } = await following("stopped", { isHeld: true });
      await stage.newTask(before, { desired: "removed", drainSeconds: 60 });
      for (const _ of [1, 2]) await stage.deploys.hold(of, at);
      expect(await stage.channelOf(projectId)).toEqual({ deploymentId: id, stopped: true });
      expect(await stage.look(id)).toMatchObject({ status: "stopped", lines: ["held"] });
      expect(await stage.look(before)).toMatchObject({ status: "superseded", lines: ["superseded"] });
      expect(await Promise.all([before, id].map(stage.isRetiring))).toEqual([true, true]);
      expect(await stage.tasksOf(before)).toMatchObject([{ desired: "removed", drainSeconds: 0 }]);
    });

    test("is not taken by one that is not held, has it already, or is canceled", async () => {
      const free = await following("running");
      const active = await following("running", { isHeld: true });
      await stage.point(active.projectId, { deploymentId: active.id, stopped: false });
      const canceled = await following("running", { isHeld: true });
      await stage.cancel(canceled.id);
      for (const { id, before, of } of [free, active, canceled]) {
        await stage.deploys.hold(of, at);
        expect(await Promise.all([id, before].map(statusOf))).toEqual(["deploying", "running"]);
      }
    });
  });

  describe("the end", () => {
    test("of one that runs is told once, and what was before goes", async () => {
      const { before, id, of } = await following("running");
      for (const _ of [1, 2]) await stage.deploys.finish(of, null, at);
      expect(await stage.look(id)).toEqual({ status: "running", error: null, lines: ["running"] });
      expect(await stage.look(before)).toMatchObject({ status: "superseded", lines: ["superseded"] });
      expect(await Promise.all([before, id].map(stage.isRetiring))).toEqual([true, false]);
    });

    test("is the one that was asked for before", async () => {
      const { before, id, of } = await following("running");
      await stage.cancel(id);
      await stage.deploys.finish(of, null, at);
      expect(await Promise.all([id, before].map(statusOf))).toEqual(["deploying", "running"]);
    });

    test.each(["running", "stopped"] as const)(
      "of one that fails gives the channel back to what is %s",
      async (status) => {
        const { projectId, before, id, of } = await following(status);
        await stage.point(projectId, { deploymentId: id, stopped: false });
        for (const _ of [1, 2]) await stage.deploys.fail(of, failure, at);
        expect(await stage.look(id)).toEqual({ status: "failed", error: "It did not answer.", lines: ["failed"] });
        expect(await stage.channelOf(projectId)).toEqual({ deploymentId: before, stopped: status === "stopped" });
        expect(await Promise.all([before, id].map(stage.isRetiring))).toEqual([false, true]);
      },
    );

    test("leaves the channel where it is if it leads elsewhere, and empty where nothing was before", async () => {
      const { projectId, before, of } = await following("running");
      await stage.deploys.cancel(of, "by its owner", { release_status: "not_configured" }, at);
      expect(await stage.channelOf(projectId)).toEqual({ deploymentId: before, stopped: false });
      const first = await made();
      await stage.point(first.projectId, { deploymentId: first.id, stopped: false });
      for (const _ of [1, 2])
        await stage.deploys.cancel(first.of, "by its owner", { release_status: "not_configured" }, at);
      expect(await stage.look(first.id)).toEqual({
        ...{ status: "canceled", error: "Canceled: by its owner.", lines: ["canceled"] },
      });
      expect(await stage.channelOf(first.projectId)).toEqual({ deploymentId: null, stopped: false });
      expect(await stage.isRetiring(first.id)).toBe(true);
    });
  });

  describe("a release command", () => {
    const runOf = (attemptId: string): RunValue => ({
      ...{ attemptId, kind: "release", ownerKind: "deployment", ownerId: "", projectId: "", state: "started" },
      ...{ cancel: false, acceptedBy: null, token: null, exitCode: 0, timedOut: false, message: null },
      ...{ startedAt: at.toISOString(), finishedAt: at.toISOString(), changedAt: at.toISOString() },
    });

    test("belongs to one node for each attempt, whoever puts it down first", async () => {
      const { id, projectId, of } = await made({ hasRelease: true });
      expect(of).toMatchObject({ release: { timeoutSeconds: 30, status: "pending" }, attempt: null });
      const nodes = [randomUUID(), randomUUID()];
      const placed = await Promise.all(nodes.map((nodeId) => stage.deploys.placeAttempt(of, 1, nodeId)));
      const [first] = placed.filter((attempt) => attempt !== null);
      expect(placed.filter((attempt) => attempt !== null)).toHaveLength(1);
      expect(first).toMatchObject({ number: 1, kind: "release", owner_kind: "deployment", owner_id: id });
      expect(first).toMatchObject({ project_id: projectId });
      expect(nodes).toContain(first?.node_id);
      expect((await find(id)).attempt).toMatchObject({ id: first?.id, number: 1, node_id: first?.node_id });
      expect(await stage.deploys.placeAttempt(of, 2, nodes[0] ?? "")).toMatchObject({ number: 2, node_id: nodes[0] });
      expect((await find(id)).attempt).toMatchObject({ number: 2 });
      expect((await find(id)).attempt?.id).not.toBe(first?.id);
    });

    test("is taken down forward only, and told once", async () => {
      const { id, of } = await made({ hasRelease: true });
      const attempt = await stage.deploys.placeAttempt(of, 1, randomUUID());
      const run = runOf(attempt?.id ?? "");
      await stage.deploys.noteOffer(of);
      for (const status of ["running", "running", "succeeded", "succeeded", "running"] as const)
        await stage.deploys.recordRelease(of, { status, run }, at);
      expect(await stage.releaseOf(id)).toBe("succeeded");
      expect((await stage.look(id)).lines).toEqual(["release-offered", "release-running", "release-succeeded"]);
      // Nobody is to be offered it again.
      expect(await stage.deploys.placeAttempt(of, 2, randomUUID())).toBeNull();
      await stage.deploys.finish(await find(id), null, at);
      expect(await stage.isRetiring(id)).toBe(true);
    });

    test("that its deployment's end cut short says so", async () => {
      const { id, of } = await made({ hasRelease: true });
      await stage.deploys.fail(of, { ...failure, release: { release_status: "skipped" } }, at);
      expect(await stage.releaseOf(id)).toBe("skipped");
    });

    test("is asked of a node as any other container of its deployment is", async () => {
      const { id, projectId, of } = await made({ hasRelease: true });
      const request = await stage.deploys.releaseRequest(of);
      expect(request).toMatchObject({
        id,
        ownerId: id,
        projectId,
        kind: "serve",
        pinnedTo: null,
        hasDockerfile: false,
      });
      expect(request.memoryMb).toBeGreaterThan(0);
      expect(await stage.deploys.nodes()).toEqual(expect.any(Array));
    });
  });
});
