import { CopySample_State as State } from "@svc/proto/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryStage, postgresStage, readyBranch, type Stage } from "../testing/memory/stage.ts";

/* What work on copies may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

const hourMs = 3_600_000;
const plan = { db_size_mb: 512 };

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of copies in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  const must = <T>(value: T | null | undefined): T => {
    if (value == null) throw new Error("there is none");
    return value;
  };
  const read = async (id: string) => must(await stage.branch(id));
  const find = async (id: string) => must(await stage.copyRows.find(id));
  const copy = async (id: string, copyId: string) => must((await stage.copies(id)).find((each) => each.id === copyId));
  const keptMs = async (id: string, copyId: string) => {
    const { ended_at, purge_at } = await copy(id, copyId);
    return Number(must(purge_at)) - Number(must(ended_at));
  };
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * hourMs);

  /** A copy of the branch on a node, begun as the branch is now. */
  async function begun(id: string, nodeId: string, purpose: "keeper" | "successor" = "keeper"): Promise<string> {
    await stage.copyRows.begin(await read(id), { purpose, nodeId });
    return must((await stage.copies(id)).find((each) => each.node_id === nodeId && each.state !== "ended")).id;
  }
  /** A branch that is ready on one node, with a copy on another one. */
  async function copied() {
    const made = await readyBranch(stage);
    return { ...made, copyId: await begun(made.id, made.other) };
  }
  /** The same, with a keeper. */
  async function kept() {
    const made = await copied();
    await stage.copyRows.startKeeper(await read(made.id), { copyId: made.copyId }, plan);
    return { ...made, keeperId: must((await stage.keepers(made.copyId))[0]).id };
  }

  test("a branch is found with its copies, who keeps them, and where one more could be kept", async () => {
    const { id, other, copyId, keeperId } = await kept();
    const found = await find(id);
    expect(found).toMatchObject({
      branch: {
        branch: { id, status: "ready" },
        suspended: false,
        projectGone: false,
        servers: [{ desired: "running" }],
      },
      copies: [
        {
          ...{ id: copyId, purpose: "keeper", generation: 1, node_id: other, state: "basing" },
          ...{ is_fresh: false, is_let_in: false, lifecycle: "active", drain: "none" },
          keepers: [{ id: keeperId, desired: "running", node_id: null, spec: { kind: "keeper" } }],
        },
      ],
      ...{ isChanging: false, mayHoldLog: false },
      nodes: expect.arrayContaining([expect.objectContaining({ id: other })]),
    });
    const [own] = found.copies;
    for (const ms of [own?.age_ms, own?.lacking_ms, own?.keepers[0]?.age_ms]) expect(must(ms)).toBeLessThan(60_000);
    await stage.move(id, other);
    expect(await find(id)).toMatchObject({ isChanging: true });
    expect(await stage.copyRows.find("7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11")).toBeNull();
  });

  test("what a copy lacks is counted from when its server came up, or the copy had everything", async () => {
    const { id, other, copyId } = await copied();
    const lacking = async () => must((await find(id)).copies[0]).lacking_ms;
    await stage.setCopy(copyId, { created_at: hoursAgo(9), covered_at: hoursAgo(8) });
    expect(await lacking()).toBeLessThan(hourMs);
    await stage.set(id, { status_at: hoursAgo(7) });
    await stage.ageServers(id, hoursAgo(10));
    expect(Math.round((await lacking()) / hourMs)).toBe(7);
    await stage.set(id, { status_at: hoursAgo(20) });
    expect(Math.round((await lacking()) / hourMs)).toBe(8);
    await stage.tell(other, copyId);
    expect(await lacking()).toBeLessThan(hourMs);
  });

  test("one copy of a purpose is begun at a time, and one on a node, of the volume that was looked at", async () => {
    const { id, other } = await copied();
    const third = await stage.newNode();
    const before = await read(id);
    await stage.copyRows.begin(before, { purpose: "keeper", nodeId: third });
    await stage.copyRows.begin(before, { purpose: "successor", nodeId: other });
    expect(await stage.copies(id)).toHaveLength(1);
    await stage.set(id, { generation: 2 });
    expect(await stage.copyRows.begin(before, { purpose: "successor", nodeId: third })).toBe(false);
    await stage.set(id, { generation: 1, status: "provisioning" });
    expect(await stage.copyRows.begin(before, { purpose: "successor", nodeId: third })).toBe(false);
    await stage.set(id, { status: "ready" });
    expect(await stage.copyRows.begin(before, { purpose: "successor", nodeId: third })).toBe(true);
    expect(await stage.copies(id)).toMatchObject([{ node_id: other }, { node_id: third, purpose: "successor" }]);
  });

  test("a copy is placed once", async () => {
    const { id, nodeId, other } = await readyBranch(stage);
    const { id: changeId } = await stage.move(id, null);
    await stage.changes.beginCopy(must(await stage.change(changeId)));
    const { id: copyId } = must((await stage.copies(id))[0]);
    await stage.copyRows.place(await read(id), { copyId, nodeId: other });
    await stage.copyRows.place(await read(id), { copyId, nodeId });
    expect(await copy(id, copyId)).toMatchObject({ node_id: other, purpose: "move" });
    expect(await stage.copyWorks(id)).toBe(1);
  });

  test("one that follows takes the place of the keeper's copy, which can be restored from for a week", async () => {
    const { id, copyId, keeperId } = await kept();
    const third = await stage.newNode();
    const nextId = await begun(id, third, "successor");
    const promote = async (insteadOf: string | null) =>
      stage.copyRows.promote(await read(id), { copyId: nextId, insteadOf });
    expect(await promote(copyId)).toBe(false);
    await stage.tell(third, nextId, { state: State.BROKEN });
    expect(await promote(copyId)).toBe(false);
    await stage.tell(third, nextId, { at: new Date(Date.now() + 1_000).toISOString() });
    await stage.setCopy(nextId, { covered_at: new Date(Date.now() - 301_000) });
    expect(await promote(copyId)).toBe(false);
    await stage.setCopy(nextId, { covered_at: new Date() });
    expect(must((await find(id)).copies[1])).toMatchObject({ id: nextId, is_fresh: true });
    expect(await promote(null)).toBe(false);
    expect(await promote(nextId)).toBe(false);
    expect(await copy(id, copyId)).toMatchObject({ state: "basing" });
    expect(await promote(copyId)).toBe(true);
    expect(await promote(copyId)).toBe(false);
    expect(await copy(id, nextId)).toMatchObject({ purpose: "keeper", state: "following" });
    expect(await copy(id, copyId)).toMatchObject({ state: "ended", purpose: "keeper" });
    expect(await keptMs(id, copyId)).toBe(168 * hourMs);
    expect(await stage.keepers(copyId)).toMatchObject([{ id: keeperId, desired: "removed" }]);
  });

  test("nothing takes the place of a copy that a move comes out of", async () => {
    const { id, copyId, other } = await kept();
    await stage.tell(other, copyId);
    const third = await stage.newNode();
    const nextId = await begun(id, third, "successor");
    await stage.tell(third, nextId);
    const move = await stage.move(id, other);
    expect(move).toMatchObject({ copy_id: copyId });
    const promote = async () => stage.copyRows.promote(await read(id), { copyId: nextId, insteadOf: copyId });
    expect(await promote()).toBe(false);
    expect(await copy(id, copyId)).toMatchObject({ state: "following", purpose: "keeper" });
    await stage.changes.fail(move, "a test");
    expect(await promote()).toBe(true);
  });

  test("where there is no keeper's copy, any may become it", async () => {
    const { id, other } = await readyBranch(stage);
    const copyId = await begun(id, other, "successor");
    expect(await stage.copyRows.promote(await read(id), { copyId, insteadOf: null })).toBe(true);
    expect(await copy(id, copyId)).toMatchObject({ purpose: "keeper", state: "basing" });
  });

  test("one that has nothing ends for good, and one that has become whole since is kept", async () => {
    const [empty, whole] = [await kept(), await kept()];
    await stage.tell(whole.other, whole.copyId);
    for (const { id, copyId } of [empty, whole]) {
      expect(await stage.copyRows.end(await read(id), { copyId, purpose: "successor", why: "a test" })).toBe(false);
      expect(await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" })).toBe(true);
      expect(await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" })).toBe(false);
      expect(await stage.keepers(copyId)).toMatchObject([{ desired: "removed" }]);
      expect((await find(id)).copies).toEqual([]);
    }
    expect([await keptMs(empty.id, empty.copyId), await keptMs(whole.id, whole.copyId)]).toEqual([0, 168 * hourMs]);
  });

  test("those who keep copies have one password, and a copy that is begun later has it brought again", async () => {
    const { id, other, copyId } = await copied();
    const isLetIn = async () => (await find(id)).copies.map((each) => each.is_let_in);
    await stage.copyRows.setPassword(await read(id), Buffer.from("one"));
    await stage.copyRows.setPassword(await read(id), Buffer.from("another"));
    expect((await read(id)).keeper_secret?.toString()).toBe("one");
    await stage.copyRows.letIn(await read(id), await stage.copyRows.now());
    expect(await isLetIn()).toEqual([true]);
    const early = new Date(Number(await stage.copyRows.now()) - 1);
    await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" });
    await begun(id, other);
    await stage.copyRows.letIn(await read(id), early);
    expect(await isLetIn()).toEqual([false]);
    const before = await read(id);
    await stage.set(id, { generation: 2, keeper_at: null });
    await stage.copyRows.letIn(before, await stage.copyRows.now());
    expect(await read(id)).toMatchObject({ keeper_at: null });
  });

  test("two keepers are never at one copy", async () => {
    const { id, copyId, other, keeperId } = await kept();
    const start = async () => stage.copyRows.startKeeper(await read(id), { copyId }, plan);
    expect(await stage.keepers(copyId)).toMatchObject([
      { id: keeperId, desired: "running", pinnedTo: other, databaseId: id, sizeMb: 2_048 },
    ]);
    await start();
    await stage.copyRows.removeKeepers([keeperId]);
    await start();
    expect(await stage.keepers(copyId)).toMatchObject([{ desired: "removed" }]);
    await stage.reap(keeperId);
    await start();
    expect(await stage.keepers(copyId)).toMatchObject([{ id: keeperId }, { desired: "running" }]);
    expect((await find(id)).copies[0]?.keepers).toMatchObject([{ desired: "running" }]);
  });

  test("nobody keeps what has ended, or is nowhere yet", async () => {
    const { id } = await readyBranch(stage);
    const { id: changeId } = await stage.move(id, null);
    await stage.changes.beginCopy(must(await stage.change(changeId)));
    const { id: copyId } = must((await stage.copies(id))[0]);
    await stage.copyRows.startKeeper(await read(id), { copyId }, plan);
    await stage.copyRows.end(await read(id), { copyId, purpose: "move", why: "a test" });
    await stage.setCopy(copyId, { node_id: await stage.newNode() });
    await stage.copyRows.startKeeper(await read(id), { copyId }, plan);
    expect(await stage.keepers(copyId)).toEqual([]);
  });

  test("the log of a copy that has ended is released once, when its keeper is over, and by the server that has it", async () => {
    const { id, copyId, keeperId } = await kept();
    const list = async () => stage.copyRows.listReleasable(await read(id));
    expect(await list()).toEqual([]);
    await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" });
    expect([await list(), (await find(id)).mayHoldLog]).toEqual([[], false]);
    await stage.reap(keeperId);
    expect([await list(), (await find(id)).mayHoldLog]).toEqual([[copyId], true]);
    await stage.set(id, { generation: 2 });
    expect([await list(), (await find(id)).mayHoldLog]).toEqual([[], false]);
    await stage.set(id, { generation: 1 });
    await stage.copyRows.released(await list());
    expect([await list(), (await find(id)).mayHoldLog]).toEqual([[], false]);
  });

  test("how far a copy is comes from its own node, and another state has the copies of its branch looked at, once", async () => {
    const { id, other, nodeId, copyId } = await copied();
    await stage.tell(nodeId, copyId);
    expect(await copy(id, copyId)).toMatchObject({ state: "basing", covered_at: null });
    expect(await stage.copyWorks(id)).toBe(0);
    const at = (afterMs: number) => new Date(Date.now() + afterMs).toISOString();
    await stage.tell(other, copyId, { at: at(0) });
    expect(await copy(id, copyId)).toMatchObject({ state: "following", position: "0/5", covered_at: expect.any(Date) });
    expect(await stage.copyWorks(id)).toBe(1);
    await stage.tell(other, copyId, { at: at(-5_000), state: State.BASING });
    expect(await copy(id, copyId)).toMatchObject({ state: "following" });
    await stage.tell(other, copyId, { at: at(5_000), state: State.BROKEN, problem: "its log has a hole" });
    expect(await copy(id, copyId)).toMatchObject({ state: "broken", problem: "its log has a hole" });
    expect(await stage.copyWorks(id)).toBe(1);
    await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" });
    await stage.tell(other, copyId, { at: at(9_000) });
    expect(await copy(id, copyId)).toMatchObject({ state: "ended", problem: "its log has a hole" });
  });

  test("branches have their copies looked at now and then, and soon where something is missing", async () => {
    const { id, projectId, other, copyId, keeperId } = await kept();
    /** Whether it is looked at when it was last so many seconds ago; undefined: never. */
    const isLooked = async (secondsAgo?: number, isWanted = true) => {
      await stage.endCopyWorks(id);
      await stage.set(id, {
        copies_looked_at: secondsAgo === undefined ? null : new Date(Date.now() - secondsAgo * 1_000),
      });
      await stage.lookAtCopies(isWanted);
      await stage.lookAtCopies(isWanted);
      return (await stage.copyWorks(id)) === 1;
    };
    expect([await isLooked(), await isLooked(290), await isLooked(310)]).toEqual([true, false, true]);
    await stage.copyRows.removeKeepers([keeperId]);
    expect([await isLooked(10), await isLooked(20)]).toEqual([false, true]);
    await stage.suspend(projectId, true);
    expect(await isLooked(20)).toBe(false);
    await stage.set(id, { generation: 2 });
    expect(await isLooked(20)).toBe(true);
    await stage.copyRows.end(await read(id), { copyId, purpose: "keeper", why: "a test" });
    expect(await isLooked(20)).toBe(false);
    await stage.suspend(projectId, false);
    expect([await isLooked(20), await isLooked(undefined, false)]).toEqual([true, false]);
    const nextId = await begun(id, other, "successor");
    await stage.copyRows.startKeeper(await read(id), { copyId: nextId }, plan);
    expect(await isLooked(20)).toBe(false);
    await stage.tell(other, nextId);
    expect([await isLooked(20), await isLooked(310, false)]).toEqual([true, true]);
    await stage.drop(projectId);
    expect(await isLooked()).toBe(false);
  });
});
