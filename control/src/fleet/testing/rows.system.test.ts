import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LeaderOutdated } from "../cluster/fenced.ts";
import type { ReplicaStep, Site } from "../replicas/steps.ts";
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

  describe("for sites and their replicas", () => {
    const slotsOf = async (deploymentId: string) =>
      (await stage.replicas.tasks([deploymentId])).sort((a, b) => a.epoch - b.epoch);
    /** A site as somebody read it. */
    const readSite = async (deploymentId: string): Promise<Site> => ({
      ...{ deploymentId, replicas: 2, replaced: new Map() },
      running: (await slotsOf(deploymentId)).map((task) => ({
        ...{ taskId: task.id, slot: task.replica, epoch: task.epoch, nodeId: task.node_id, node: "present" },
        ...{ connected: true, hasNoRoom: task.refused, serving: true, served: task.served, published: true },
        ...{ endedAt: null, retiring: task.retiring_ms_ago !== null, retiringSince: null, unroutedAt: null },
      })),
    });
    const by = () => ({ epoch, drainMs: 5_000 });

    test("a channel that is to be up is listed, with how much it is to have and its names", async () => {
      const [one, stopped] = [await stage.newSite(), await stage.newSite({ stopped: true })];
      const sites = await stage.replicas.sites();
      const { deploymentId: id, projectId: project_id } = one;
      expect(sites).toContainEqual({ id, project_id, channel: "production", pr_number: null });
      expect(sites.map((site) => site.id)).not.toContain(stopped.deploymentId);
      expect(await stage.replicas.sizes([id])).toEqual([{ id, replicas: 2 }]);
      expect(await stage.replicas.sizes([])).toEqual([]);
      const { host } = one;
      expect(await stage.replicas.names([project_id])).toContainEqual({
        ...{ host, project_id, channel: "production", pr_number: null },
      });
      expect(await stage.replicas.names([])).toEqual([]);
    });

    test("edges count that visitors may reach: those that came, were whole once, and are not cordoned", async () => {
      const edge = { role: "edge", seenAt: new Date() } as const;
      const reached = await stage.newNode(edge);
      const others = [
        await stage.newNode({ role: "edge" }),
        await stage.newNode({ ...edge, schedulable: false }),
        await stage.newNode({ ...edge, entering: true }),
        await stage.newNode({ ...edge, lifecycle: "fenced" }),
        await stage.newNode({ seenAt: new Date() }),
      ];
      const edges = await stage.replicas.edges();
      expect(edges).toContain(reached);
      for (const id of others) expect(edges).not.toContain(id);
      expect((await stage.replicas.nodes()).has(reached)).toBe(false);
    });

    test("what was made in place of others counts, unless it served until another took over", async () => {
      const { deploymentId } = await stage.newSite();
      const made = { deploymentId, replica: 1, cause: "ended" };
      await stage.newTask({ deploymentId, replica: 0 });
      await stage.newTask({ ...made, isServed: true, isRetiring: true });
      await stage.newTask({ ...made, isServed: true, desired: "removed" });
      await stage.newTask({ ...made, isRetiring: true });
      const [replaced, ...rest] = await stage.replicas.replaced([deploymentId]);
      expect(rest).toEqual([]);
      expect(replaced).toMatchObject({ owner_id: deploymentId, replica: 1, count: 2 });
      expect(replaced?.last_ms_ago).toBeGreaterThanOrEqual(0);
      expect(await stage.replicas.replaced([])).toEqual([]);
    });

    test("that a container has served is kept once, by the newest leader alone", async () => {
      const { deploymentId } = await stage.newSite();
      const [id, other] = [await stage.newTask({ deploymentId }), await stage.newTask({ deploymentId })];
      await expect(stage.replicas.noteServed(epoch - 1n, [id])).rejects.toBeInstanceOf(LeaderOutdated);
      expect(await stage.taskOf(id)).toMatchObject({ isServed: false });
      await stage.replicas.noteServed(epoch, [id]);
      await stage.replicas.noteServed(epoch, [id]);
      expect(await stage.taskOf(id)).toMatchObject({ isServed: true });
      expect(await stage.taskOf(other)).toMatchObject({ isServed: false });
    });

    test("steps are carried out on what they were decided on, all of them, and once", async () => {
      const { deploymentId } = await stage.newSite();
      const [kept, leaving, over] = [
        await stage.newTask({ deploymentId, replica: 0 }),
        await stage.newTask({ deploymentId, replica: 1 }),
        await stage.newTask({ deploymentId, replica: 1, isRetiring: true }),
      ];
      const site = await readSite(deploymentId);
      const steps: ReplicaStep[] = [
        { do: "replace", deploymentId, slot: 1, cause: "ended" },
        { do: "retire", deploymentId, taskId: leaving },
        { do: "remove", deploymentId, taskId: over, why: "another one serves" },
      ];
      await expect(stage.replicas.carryOut({ ...by(), epoch: epoch - 1n }, site, steps)).rejects.toBeInstanceOf(
        LeaderOutdated,
      );
      expect(await stage.replicas.carryOut(by(), site, steps)).toBe(true);
      // Once more, as a leader would that did not hear of it.
      expect(await stage.replicas.carryOut(by(), site, steps)).toBe(false);
      expect(await stage.taskOf(kept)).toMatchObject({ desired: "running", isRetiring: false });
      expect(await stage.taskOf(leaving)).toMatchObject({ desired: "running", isRetiring: true });
      expect(await stage.taskOf(over)).toMatchObject({ desired: "removed", drainSeconds: 25 });
      const slots = await slotsOf(deploymentId);
      expect(slots.map(({ replica }) => replica)).toEqual([0, 1, 1]);
      const [, , made] = slots;
      expect(await stage.taskOf(made?.id ?? "")).toMatchObject({ cause: "ended", isServed: false, nodeId: null });
      expect(slots[1]?.retiring_ms_ago).toBeGreaterThanOrEqual(0);
      expect(await stage.linesOf(deploymentId)).toEqual(["replica-replaced"]);
    });

    test("nothing is done to a site that is not served, or is another one by now", async () => {
      const [stopped, changed] = [await stage.newSite({ stopped: true }), await stage.newSite()];
      for (const { deploymentId } of [stopped, changed]) {
        const taskId = await stage.newTask({ deploymentId, replica: 0 });
        const site = await readSite(deploymentId);
        const steps: ReplicaStep[] = [{ do: "retire", deploymentId, taskId }];
        if (deploymentId === changed.deploymentId) await stage.newTask({ deploymentId, replica: 1 });
        expect(await stage.replicas.carryOut(by(), site, steps)).toBe(false);
        expect(await stage.taskOf(taskId)).toMatchObject({ isRetiring: false });
      }
    });
  });

  describe("for links of machines", () => {
    const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second));

    test("the last line about its link counts, whatever else is told of a machine", async () => {
      const [lost, back, fresh] = [
        await stage.newNode({ seenAt: at(10) }),
        await stage.newNode({ seenAt: at(30) }),
        await stage.newNode(),
      ];
      const line = (nodeId: string, kind: string, second: number) => ({ nodeId, kind, at: at(second) });
      await stage.links.add([line(lost, "connected", 5), line(back, "unreachable", 20), line(fresh, "joined", 1)]);
      await stage.links.add([line(lost, "unreachable", 20), line(lost, "cordoned", 25)]);
      const all = [lost, back, fresh];
      const byId = <T extends { node_id: string }>(rows: readonly T[]) =>
        new Map(rows.map((row) => [row.node_id, row]));
      const links = byId(await stage.links.lastLinks(all));
      expect([links.get(lost)?.kind, links.get(back)?.kind, links.has(fresh)]).toEqual([
        ...["unreachable", "unreachable", false],
      ]);
      expect((await stage.links.withHistory(all)).sort()).toEqual([...all].sort());
      expect(await stage.links.withHistory([await stage.newNode()])).toEqual([]);
      const said = byId(await stage.storms.lastLinks(all));
      expect(said.get(lost)).toMatchObject({ kind: "unreachable", is_last: true });
      expect(said.get(back)).toMatchObject({ kind: "unreachable", is_last: false });
      expect(said.has(fresh)).toBe(false);
      expect(said.get(lost)?.ms_ago).toBeGreaterThan(0);
    });

    test("machines in use have a history, and nodes that came count when many are lost", async () => {
      const [came, never, fenced, edge] = [
        await stage.newNode({ seenAt: at(1) }),
        await stage.newNode(),
        await stage.newNode({ seenAt: at(1), lifecycle: "fenced" }),
        await stage.newNode({ seenAt: at(1), role: "edge" }),
      ];
      const machines = (await stage.links.machines()).map(({ id }) => id);
      expect(machines).toEqual(expect.arrayContaining([came, never, edge]));
      expect(machines).not.toContain(fenced);
      const nodes = await stage.storms.nodes();
      expect(nodes).toContain(came);
      for (const id of [never, fenced, edge]) expect(nodes).not.toContain(id);
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
