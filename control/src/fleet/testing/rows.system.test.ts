import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LeaderOutdated } from "../cluster/fenced.ts";
import { memoryStage, postgresStage, type Stage } from "./stage.ts";

/* What leaders may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows in $store", ({ open }) => {
  let stage: Stage;
  /** Of the leader at work. */
  let epoch = 0n;
  beforeAll(async () => {
    stage = await open();
    epoch = 7n;
    await stage.raiseFence(epoch);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  const openAmong = async (ids: readonly string[]) =>
    (await stage.scheduler.openTasks()).filter(({ id }) => ids.includes(id));

  describe("for the scheduler", () => {
    test("machines that joined and are not gone take work, edges do not", async () => {
      const [node, drained] = [await stage.newNode(), await stage.newNode({ drain: "drained", schedulable: false })];
      const [fenced, removed] = [
        await stage.newNode({ lifecycle: "fenced" }),
        await stage.newNode({ lifecycle: "removed" }),
      ];
      const edge = await stage.newNode({ role: "edge" });
      const ids = (await stage.scheduler.nodes()).map(({ id }) => id);
      expect(ids).toEqual([...ids].sort());
      expect(ids).toEqual(expect.arrayContaining([node, drained]));
      for (const id of [fenced, removed, edge]) expect(ids).not.toContain(id);
      const rows = await stage.scheduler.nodes();
      expect(rows.find(({ id }) => id === drained)).toMatchObject({ drain: "drained", schedulable: false });
      expect(await stage.scheduler.goneNodes()).toEqual(expect.arrayContaining([fenced, removed]));
    });

    test("what is not over is listed in the order of its epochs, also what is to go", async () => {
      const first = await stage.newTask();
      const leaving = await stage.newTask({ desired: "removed", drainSeconds: 30 });
      const over = await stage.newTask({ desired: "removed" });
      const last = await stage.newTask();
      await stage.scheduler.mirror(epoch, { placed: [], reaped: [over] });
      const listed = await openAmong([last, over, leaving, first]);
      expect(listed.map(({ id }) => id)).toEqual([first, leaving, last]);
      expect(listed.map(({ epoch: each }) => each)).toEqual(listed.map((each) => each.epoch).sort((a, b) => a - b));
      expect(listed[1]).toMatchObject({ desired: "removed", drain_seconds: 30, node_id: null, refused: null });
      for (const { waited_ms } of listed) expect(waited_ms).toBeGreaterThanOrEqual(0);
    });

    test("what is placed is taken down, with no word of why it waited", async () => {
      const [node, task] = [await stage.newNode(), await stage.newTask()];
      await stage.scheduler.refuse([task], { cordoned: 2 });
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: null, refused: { cordoned: 2 } });
      const placed = { placed: [{ taskId: task, nodeId: node }], reaped: [] };
      await stage.scheduler.mirror(epoch, placed);
      // Once more, as a leader would that did not hear of it.
      await stage.scheduler.mirror(epoch, placed);
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: node, refused: null, isReaped: false });
    });

    test("the reason counts that was told last, and a kept limit is one", async () => {
      const [one, other] = [await stage.newTask(), await stage.newTask()];
      await stage.scheduler.refuse([one, other], { cordoned: 1, draining: 1 });
      await stage.scheduler.refuse([other], { draining: 2 });
      const { owner_id: ownerId = "" } = (await openAmong([one]))[0] ?? {};
      await stage.scheduler.keep({ taskId: one, ownerKind: "deployment", ownerId, reason: "no room" });
      expect((await stage.taskOf(one)).refused).toEqual({ "no room": 1 });
      expect((await stage.taskOf(other)).refused).toEqual({ draining: 2 });
    });

    test("drains end now, and never become longer", async () => {
      const task = await stage.newTask();
      await stage.remove([task], 60);
      await stage.remove([task], 90);
      expect(await stage.taskOf(task)).toMatchObject({ desired: "removed", drainSeconds: 60 });
      await stage.scheduler.endDrains([task]);
      await stage.scheduler.endDrains([]);
      expect(await stage.taskOf(task)).toMatchObject({ desired: "removed", drainSeconds: 0 });
    });

    test("what somebody changes meanwhile stays changed", async () => {
      const [node, task] = [await stage.newNode(), await stage.newTask()];
      await stage.whileRemoved(task, () =>
        stage.scheduler.mirror(epoch, { placed: [{ taskId: task, nodeId: node }], reaped: [] }),
      );
      expect(await stage.taskOf(task)).toMatchObject({ desired: "removed", nodeId: node });
    });
  });

  describe("for machines that are to be empty", () => {
    const done = { from: ["draining", "deadline"], to: "drained", event: "drained" } as const;
    const generation = 0;

    test("nodes are listed until nobody wants them empty, edges until they are", async () => {
      const [draining, drained] = [
        await stage.newNode({ drain: "draining" }),
        await stage.newNode({ drain: "drained" }),
      ];
      const others = [
        await stage.newNode(),
        await stage.newNode({ drain: "draining", lifecycle: "fenced" }),
        await stage.newNode({ role: "edge", drain: "drained" }),
      ];
      const edge = await stage.newNode({ role: "edge", drain: "draining" });
      const nodes = (await stage.drains.nodes()).map(({ id }) => id);
      expect(nodes).toEqual(expect.arrayContaining([draining, drained]));
      for (const id of [...others, edge]) expect(nodes).not.toContain(id);
      expect((await stage.drains.edges()).map(({ id }) => id)).toEqual([edge]);
      expect((await stage.drains.nodes()).find(({ id }) => id === draining)).toMatchObject({
        ...{ drain: "draining", drain_generation: generation, drain_deadline: null },
      });
    });

    test("a drain goes on once, and only the one that was decided about", async () => {
      const nodeId = await stage.newNode({ drain: "draining" });
      expect(await stage.drains.move({ nodeId, generation: generation + 1 }, done)).toBe(false);
      expect(await stage.drains.move({ nodeId, generation }, { ...done, from: ["deadline"] })).toBe(false);
      expect(await stage.drainOf(nodeId)).toBe("draining");
      const moved = await Promise.all([1, 2].map(() => stage.drains.move({ nodeId, generation }, done)));
      expect(moved.sort()).toEqual([false, true]);
      expect(await stage.drainOf(nodeId)).toBe("drained");
      expect(await stage.linesOf(nodeId)).toEqual(["drained"]);
      const fenced = await stage.newNode({ drain: "draining", lifecycle: "fenced" });
      expect(await stage.drains.move({ nodeId: fenced, generation }, done)).toBe(false);
    });

    test("what its owner does not build any more is not begun anew", async () => {
      const nodeId = await stage.newNode({ drain: "deadline" });
      const [building, over] = [await stage.newDeployment("building"), await stage.newDeployment("failed")];
      const of = async (ownerId: string) => {
        const taskId = await stage.newTask({ deploymentId: ownerId });
        return { do: "redo", nodeId, generation, taskId, ownerKind: "deployment", ownerId } as const;
      };
      const [wanted, unwanted] = [await of(building), await of(over)];
      expect(await stage.drains.redo({ ...wanted, generation: generation + 1 }, "later")).toBe(false);
      expect(await stage.drains.redo(unwanted, "later")).toBe(false);
      expect(await stage.taskOf(unwanted.taskId)).toMatchObject({ desired: "running" });
      expect(await stage.drains.redo(wanted, "its time is up")).toBe(true);
      expect(await stage.drains.redo(wanted, "its time is up")).toBe(false);
      expect(await stage.taskOf(wanted.taskId)).toMatchObject({ desired: "removed", drainSeconds: 0 });
      expect(await stage.linesOf(building)).toEqual(["task-abandoned"]);
    });

    test("what is open ends with the drain that was decided about", async () => {
      const nodeId = await stage.newNode({ drain: "deadline" });
      const taskId = await stage.newTask({ desired: "removed", drainSeconds: 60 });
      const step = { do: "endDrain", nodeId, generation, taskId } as const;
      expect(await stage.drains.endDrain({ ...step, generation: generation + 1 })).toBe(false);
      expect(await stage.taskOf(taskId)).toMatchObject({ drainSeconds: 60 });
      expect(await stage.drains.endDrain(step)).toBe(true);
      expect(await stage.drains.endDrain(step)).toBe(false);
      expect(await stage.taskOf(taskId)).toMatchObject({ desired: "removed", drainSeconds: 0 });
    });

    test("who waits for an attempt is told of its end once, if it may have started", async () => {
      const nodeId = await stage.newNode({ drain: "deadline" });
      const [waiting, other, over] = [
        await stage.newDeployment("deploying"),
        await stage.newDeployment("deploying"),
        await stage.newDeployment("failed"),
      ];
      const end = (ownerId: string, claimed: boolean, of = generation) =>
        stage.drains.noteEnd(
          {
            ...{ do: "endRun", nodeId, generation: of, attemptId: "a", kind: "release", claimed },
            ...{ ownerKind: "deployment", ownerId },
          },
          "its time is up",
        );
      expect(await end(waiting, true, generation + 1)).toBe(false);
      expect(await stage.linesOf(waiting)).toEqual([]);
      expect(await Promise.all([end(waiting, true), end(waiting, true)])).toEqual([true, true]);
      expect(await Promise.all([end(other, false), end(over, true)])).toEqual([true, true]);
      expect(await stage.linesOf(waiting)).toEqual(["release-ended"]);
      expect([...(await stage.linesOf(other)), ...(await stage.linesOf(over))]).toEqual([]);
    });
  });

  describe("for machines that are lost", () => {
    test("tasks that were only to stop are forgotten, others are not", async () => {
      const [stopped, running] = [await stage.newTask({ desired: "stopped" }), await stage.newTask()];
      await stage.lost.forgetStopped([stopped, running]);
      await stage.lost.forgetStopped([stopped]);
      expect(await stage.taskOf(stopped)).toMatchObject({ desired: "removed" });
      expect(await stage.taskOf(running)).toMatchObject({ desired: "running" });
      const fenced = await stage.newNode({ lifecycle: "fenced" });
      expect(await stage.lost.gone()).toContain(fenced);
    });

    test("who waits for a run is told one thing once, also by two at the same time", async () => {
      const [waiting, over] = [await stage.newDeployment("deploying"), await stage.newDeployment("failed")];
      const line = { phase: "fence-required", detail: "Fence it." };
      const tell = (ownerId: string) => stage.lost.tellOnce({ ownerKind: "deployment", ownerId }, line);
      await Promise.all([tell(waiting), tell(waiting), tell(over)]);
      await tell(waiting);
      expect(await stage.linesOf(waiting)).toEqual(["fence-required"]);
      expect(await stage.linesOf(over)).toEqual([]);
    });
  });

  describe("for routes", () => {
    test("a host is told of alone as it is among all", async () => {
      const [one, other, stopped] = [
        await stage.newSite(),
        await stage.newSite(),
        await stage.newSite({ stopped: true }),
      ];
      const all = await stage.routes.hosts(null);
      const rowOf = ({ host }: { host: string }) => all.find((row) => row.host === host);
      expect(rowOf(one)).toMatchObject({
        ...{ project_id: one.projectId, channel: "production", deployment_id: one.deploymentId, stopped: false },
        ...{ artifact_kind: "image", redirect_to: null, password_hash: null, suspended_at: null },
      });
      expect(rowOf(stopped)).toMatchObject({ deployment_id: stopped.deploymentId, stopped: true });
      // By its project, by its host, or by both it is one.
      const scoped = await stage.routes.hosts({ projectIds: [one.projectId], hosts: [one.host, stopped.host] });
      const byHost = (a: { host: string }, b: { host: string }) => (a.host < b.host ? -1 : 1);
      expect(scoped.sort(byHost)).toEqual([rowOf(one), rowOf(stopped)].flatMap((row) => row ?? []).sort(byHost));
      expect(scoped.map(({ host }) => host)).not.toContain(other.host);
      expect(await stage.routes.hosts({ projectIds: [], hosts: [] })).toEqual([]);
      expect(await stage.routes.holdsProjects()).toBe(true);
    });

    test("containers are those that are to run, of all deployments or of some, and lead to their projects", async () => {
      const [one, other] = [await stage.newSite(), await stage.newSite()];
      const [running, elsewhere] = [
        await stage.newTask({ deploymentId: one.deploymentId }),
        await stage.newTask({ deploymentId: other.deploymentId }),
      ];
      const leaving = await stage.newTask({ deploymentId: one.deploymentId, desired: "removed", drainSeconds: 10 });
      const over = await stage.newTask({ deploymentId: one.deploymentId });
      await stage.scheduler.mirror(epoch, { placed: [], reaped: [over] });
      expect(await stage.routes.containers([one.deploymentId])).toEqual([
        { id: running, owner_id: one.deploymentId, node_id: null, retiring_at: null },
      ]);
      const all = (await stage.routes.containers(null)).map(({ id }) => id);
      expect(all).toEqual(expect.arrayContaining([running, elsewhere]));
      for (const id of [leaving, over]) expect(all).not.toContain(id);
      expect(await stage.routes.containers([])).toEqual([]);
      const projects = await stage.routes.projectsOf([running, leaving, elsewhere]);
      expect(projects.sort()).toEqual([one.projectId, other.projectId].sort());
      expect(await stage.routes.projectsOf([])).toEqual([]);
    });

    test("machines are told of whatever became of them, some of them alone, and no edges", async () => {
      const [draining, fenced] = [
        await stage.newNode({ drain: "draining" }),
        await stage.newNode({ lifecycle: "fenced" }),
      ];
      const edge = await stage.newNode({ role: "edge" });
      const all = await stage.routes.nodes();
      expect(all.get(draining)).toMatchObject({ id: draining, lifecycle: "active", drain: "draining" });
      expect(all.get(fenced)).toMatchObject({ id: fenced, lifecycle: "fenced", quarantined_at: null });
      expect(all.has(edge)).toBe(false);
      expect([...(await stage.routes.nodes([fenced, edge])).keys()]).toEqual([fenced]);
      expect((await stage.routes.nodes([])).size).toBe(0);
    });

    test("where a container is, is taken down by the newest leader alone", async () => {
      const [node, task] = [await stage.newNode(), await stage.newTask()];
      const placed = [{ taskId: task, nodeId: node }];
      await expect(stage.routes.place(epoch - 1n, placed)).rejects.toBeInstanceOf(LeaderOutdated);
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: null });
      await stage.routes.place(epoch, placed);
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: node });
    });
  });

  describe("under a fence", () => {
    test("nobody takes anything down but the newest leader, and nothing by halves", async () => {
      const [node, task, over] = [await stage.newNode(), await stage.newTask(), await stage.newTask()];
      const mirrored = { placed: [{ taskId: task, nodeId: node }], reaped: [over] };
      const older = epoch;
      epoch += 3n;
      await stage.raiseFence(epoch);
      // Twice: whoever did not hear of it does it again.
      await stage.raiseFence(epoch);
      await expect(stage.raiseFence(older)).rejects.toBeInstanceOf(LeaderOutdated);
      await expect(stage.scheduler.mirror(older, mirrored)).rejects.toBeInstanceOf(LeaderOutdated);
      // Nor one that has not come to take over.
      await expect(stage.scheduler.mirror(epoch + 1n, mirrored)).rejects.toBeInstanceOf(LeaderOutdated);
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: null });
      expect(await stage.taskOf(over)).toMatchObject({ isReaped: false });
      await stage.scheduler.mirror(epoch, mirrored);
      expect(await stage.taskOf(task)).toMatchObject({ nodeId: node });
      expect(await stage.taskOf(over)).toMatchObject({ isReaped: true });
    });
  });
});
