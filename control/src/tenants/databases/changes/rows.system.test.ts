import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { roleConnectionLimit } from "../limits.ts";
import { memoryStage, postgresStage, readyBranch, type Stage } from "../testing/memory/stage.ts";

/* What work on changes may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of changes in $store", ({ open }) => {
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
  const now = async (changeId: string) => must(await stage.change(changeId));
  const newest = async (id: string) => must((await stage.servers(id)).at(-1));

  /** A branch on its way to another node, with a copy there that follows. */
  async function moving() {
    const made = await readyBranch(stage);
    const { id: changeId } = await stage.move(made.id, made.other);
    await stage.changes.beginCopy(await now(changeId));
    const [copy] = await stage.copies(made.id);
    await stage.follow(must(copy).id, { node_id: made.other, position: "0/5" });
    return { ...made, changeId, copyId: must(copy).id };
  }
  /** The same whose server is over: the next step is the switch. */
  async function stopped() {
    const made = await moving();
    expect(await stage.changes.beginFreeze(await now(made.changeId))).toBe(true);
    expect(await stage.changes.frozen(await now(made.changeId), { position: "0/5", isCopied: true })).toBe("stopping");
    await stage.reap(made.taskId);
    return made;
  }

  test("a change is found with its branch, its copy and where it could go", async () => {
    const { id, nodeId, other, changeId } = await moving();
    expect(await stage.changes.find(changeId)).toMatchObject({
      change: { kind: "move", state: "copying", freezes: 0, from_node: nodeId, to_node: other, from_generation: 1 },
      branch: { branch: { id, status: "ready" }, servers: [{ desired: "running" }], changing: false, nodeGone: false },
      copy: { copy: { state: "following", purpose: "move", generation: 1 }, nodeGone: false },
      ...{ frozenMs: null, backingUp: false, volumeLost: false },
      nodes: expect.arrayContaining([expect.objectContaining({ id: other })]),
    });
    const found = must(await stage.changes.find(changeId));
    for (const ms of [found.sinceMs, must(found.tenantMs), must(must(found.copy).behindMs)])
      expect(ms).toBeLessThan(60_000);
    expect(await stage.changes.find("7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11")).toBeNull();
    expect(await stage.changeWorks(changeId)).toBe(1);
    await stage.backUp(id);
    expect(await stage.changes.find(changeId)).toMatchObject({ backingUp: true });
  });

  test("a branch is under one change at a time, and a copy is begun once", async () => {
    const { id, other, changeId } = await moving();
    await expect(stage.move(id, other)).rejects.toThrow("under a move already");
    await stage.changes.beginCopy(await now(changeId));
    expect(await stage.copies(id)).toHaveLength(1);
  });

  test("the tenant of a branch is kept out as long as it is the platform's to say, and its server is the change's then", async () => {
    const { id, nodeId, changeId, taskId } = await moving();
    await stage.rotate(id);
    expect(await stage.changes.beginFreeze(await now(changeId))).toBe(false);
    await stage.rows.rotated(await read(id), Buffer.from("sealed"));
    const before = await now(changeId);
    expect(await stage.changes.beginFreeze(before)).toBe(true);
    expect(await now(changeId)).toMatchObject({ state: "freezing", freezes: 1, frozen_at: expect.any(Date) });
    expect(await stage.changes.beginFreeze(before)).toBe(false);
    expect(await stage.rows.find(id)).toMatchObject({ changing: true });
    expect(await stage.reachable(nodeId, [])).toMatchObject([{ isHeld: true, copies: [expect.anything()] }]);
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    expect(await stage.servers(id)).toHaveLength(1);
    expect(await stage.rows.fail(await read(id), "late")).toBe(false);
  });

  test("the tenant is not kept out while a backup of the branch is under way, also if that began a moment ago", async () => {
    const { id, changeId } = await moving();
    await stage.backUp(id);
    const before = await now(changeId);
    expect(await stage.changes.beginFreeze(before)).toBe(false);
    expect(await now(changeId)).toEqual(before);
  });

  test("what the copy lacks is waited for, and servers end once it has everything", async () => {
    const { id, changeId } = await moving();
    await stage.changes.beginFreeze(await now(changeId));
    expect(await stage.changes.frozen(await now(changeId), { position: "0/7", isCopied: false })).toBe("draining");
    expect(await now(changeId)).toMatchObject({ frozen_position: "0/7" });
    expect((await newest(id)).desired).toBe("running");
    const before = await now(changeId);
    expect(await stage.changes.stop(before)).toBe(true);
    expect(await stage.changes.stop(before)).toBe(false);
    expect((await newest(id)).desired).toBe("removed");
  });

  test("a freeze that comes too late has the tenant looked at again, also while it is let in", async () => {
    const { id, changeId } = await moving();
    await stage.changes.beginFreeze(await now(changeId));
    const before = await now(changeId);
    const doubts = async () => (await read(id)).tenant_doubts;
    const first = await doubts();
    expect(await stage.changes.frozen(before, null)).toBeNull();
    expect(await doubts()).toBe(first);
    await stage.changes.undo(before, "too long");
    expect(await stage.changes.stop(await now(changeId))).toBe(false);
    expect(await stage.changes.frozen(await now(changeId), { position: "0/7", isCopied: true })).toBeNull();
    expect([await doubts(), (await now(changeId)).state]).toEqual([first + 1, "freezing"]);
    expect(await stage.changes.settle(await now(changeId), { to: "copying", reason: "too long" }, true)).toBe(true);
    expect(await now(changeId)).toMatchObject({ state: "copying", undoing: null, frozen_at: null, freezes: 1 });
    // Another try, which the one of before must not be taken for.
    await stage.rows.brought(await read(id), 1);
    await stage.changes.beginFreeze(await now(changeId));
    expect(await stage.changes.frozen(before, { position: "0/7", isCopied: true })).toBeNull();
    expect([await doubts(), (await now(changeId)).state]).toEqual([first + 2, "freezing"]);
    expect(await stage.works(id)).toBe(1);
  });

  test("where nobody could be let in whoever brings the branch up does it, and a copy that was made for it ends with the change", async () => {
    const { id, changeId } = await moving();
    await stage.changes.beginFreeze(await now(changeId));
    await stage.changes.undo(await now(changeId), "too long");
    expect(await stage.changes.settle(await now(changeId), { to: "failed", reason: "too long" }, false)).toBe(true);
    expect(await now(changeId)).toMatchObject({ state: "failed", problem: "too long", ended_at: expect.any(Date) });
    expect(await read(id)).toMatchObject({ tenant_at: null, status: "ready" });
    expect(await stage.copies(id)).toMatchObject([{ state: "ended", purge_at: expect.any(Date) }]);
    expect(await stage.rows.find(id)).toMatchObject({ changing: false });
  });

  test("the next volume and its server come in one transaction, and not before the last server is over", async () => {
    const { id, nodeId, other, changeId, copyId, taskId } = await moving();
    await stage.changes.beginFreeze(await now(changeId));
    await stage.changes.frozen(await now(changeId), { position: "0/5", isCopied: true });
    expect(await stage.changes.switchOver(await now(changeId))).toBeNull();
    await stage.reap(taskId);
    const doubts = (await read(id)).tenant_doubts;
    const before = await now(changeId);
    expect(await stage.changes.switchOver(before)).toBe(2);
    expect(await stage.changes.switchOver(before)).toBeNull();
    expect(await now(changeId)).toMatchObject({ state: "restoring", to_node: other, covered_at: expect.any(Date) });
    expect(await read(id)).toMatchObject({ generation: 2, node_id: other, tenant_at: null, tenant_doubts: doubts + 1 });
    expect(await newest(id)).toMatchObject({ desired: "running", pinnedTo: other, init: false, restores: copyId });
    expect(await stage.copies(id)).toMatchObject([{ state: "ended" }]);
    await stage.endKeeping(id);
    expect(await stage.volumes(nodeId)).toMatchObject([{ generation: 1, isOver: true, isDue: true, isChanging: true }]);
    const known = await stage.volumes(other);
    expect(known.toSorted((a, b) => (a.of < b.of ? -1 : 1))).toMatchObject([
      { of: "copy", id: copyId, isOver: true, isChanging: true, isUsed: true },
      { of: "database", generation: 2, isOver: false, isCurrent: true, isUsed: true },
    ]);
  });

  test("there is one server of the next volume, and a change is done once somebody was let in there", async () => {
    const { id, other, changeId, nodeId } = await stopped();
    await stage.changes.switchOver(await now(changeId));
    await stage.changes.startServer(await now(changeId));
    expect(await stage.servers(id)).toHaveLength(2);
    await stage.changes.removeServers(await now(changeId), [(await newest(id)).id]);
    await stage.reap((await newest(id)).id);
    await stage.changes.startServer(await now(changeId));
    expect(await newest(id)).toMatchObject({ desired: "running", pinnedTo: other });
    const before = await read(id);
    await stage.changes.refused(await now(changeId));
    expect(await stage.changes.proven(await now(changeId), before)).toBe(false);
    const { branch, plan } = must(await stage.rows.find(id));
    await stage.changes.brought(branch, roleConnectionLimit(plan));
    const proven = await read(id);
    expect(await stage.changes.proven(await now(changeId), proven)).toBe(true);
    expect(await now(changeId)).toMatchObject({ state: "done", problem: null, ended_at: expect.any(Date) });
    expect(await stage.volumes(nodeId)).toMatchObject([{ isOver: true, isChanging: false }]);
  });

  test("one that is dropped, or whose change is to end, keeps the volume that it has", async () => {
    const [one, other] = [await stopped(), await stopped()];
    await stage.drop(one.projectId);
    await stage.cancel(other.id);
    expect(await now(other.changeId)).toMatchObject({ cancelled: true });
    for (const { id, changeId } of [one, other]) {
      expect(await stage.changes.switchOver(await now(changeId))).toBeNull();
      expect(await read(id)).toMatchObject({ generation: 1 });
      expect(await stage.changes.fail(await now(changeId), "it was ended")).toBe(true);
      expect(await now(changeId)).toMatchObject({ state: "failed", problem: "it was ended" });
    }
    expect(await read(other.id)).toMatchObject({ status: "ready", tenant_at: null });
  });

  test("a branch that is gone ends its change, and nothing else comes of that", async () => {
    const { id, projectId, nodeId, changeId, taskId } = await moving();
    await stage.drop(projectId);
    await stage.reap(taskId);
    await stage.rows.bury(await read(id), { nodeId, keptHours: 72 });
    expect(await stage.changes.find(changeId)).toMatchObject({ branch: null });
    expect(await stage.changes.switchOver(await now(changeId))).toBeNull();
    await stage.changes.startServer(await now(changeId));
    expect(await stage.changes.fail(await now(changeId), "it was dropped")).toBe(true);
    expect(await stage.copies(id)).toMatchObject([{ state: "ended" }]);
  });

  test("what does not come up is in error, and may come out of its copy again", async () => {
    const { id, changeId, copyId, other } = await stopped();
    await stage.changes.switchOver(await now(changeId));
    await stage.changes.fail(await now(changeId), "its disk broke");
    expect(await read(id)).toMatchObject({ status: "error", reason: "It could not be restored. its disk broke" });
    const again = await stage.restore(id);
    expect(again).toMatchObject({ kind: "restore", state: "stopping", copy_id: copyId, to_node: other });
    await stage.changes.removeServers(again, [(await newest(id)).id]);
    await stage.reap((await newest(id)).id);
    expect(await stage.changes.switchOver(again)).toBe(3);
    expect(await read(id)).toMatchObject({ status: "provisioning", generation: 3 });
  });

  test("a server gets another image over the volume that it has", async () => {
    const { id, taskId, nodeId } = await readyBranch(stage);
    const change = await stage.upgrade(id, "svc/newer");
    expect(change).toMatchObject({ kind: "upgrade", state: "stopping", image: "svc/newer" });
    await stage.changes.removeServers(change, [taskId]);
    await stage.reap(taskId);
    expect(await stage.changes.switchOver(change)).toBe(1);
    expect(await newest(id)).toMatchObject({ pinnedTo: nodeId, image: "svc/newer", restores: null });
    await stage.changes.fail(await now(change.id), "it does not start");
    expect(await read(id)).toMatchObject({ status: "ready", generation: 1 });
  });
});
