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
      expect((await stage.scheduler.goneNodes()).sort()).toEqual([fenced, removed].sort());
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
