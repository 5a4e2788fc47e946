import { describe, expect, test } from "vitest";
import { roomMs } from "./room.ts";
import { type ClusterState, type DesiredTask, type Placed, schedule } from "./steps.ts";
import { aNode, aTask } from "./testing.ts";

const placedOn = (nodeId: string, task: DesiredTask, desired: Placed["desired"] = "running"): Placed => ({
  placementId: task.id,
  nodeId,
  epoch: task.epoch,
  desired,
  kind: task.kind,
  specHash: task.specHash,
  projectId: task.projectId,
  ownerKind: task.ownerKind,
  ownerId: task.ownerId,
  channel: task.channel,
  memoryMb: task.memoryMb,
  cpuMillicores: task.cpuMillicores,
  pidsLimit: task.pidsLimit,
  storageMb: task.storageMb,
  limitsGeneration: 0,
  drainSeconds: task.drainSeconds,
  modRevision: 1n,
});

const withRoom = (placed: Placed, { reservedMemoryMb, reservedCpuMillicores }: DesiredTask): Placed => ({
  ...placed,
  ...{ memoryMb: reservedMemoryMb, reservedMemoryMb, reservedCpuMillicores },
});

const aState = (change: Partial<ClusterState> = {}): ClusterState => ({
  nodes: [aNode("n1"), aNode("n2")],
  goneNodes: new Set(),
  tasks: [],
  placed: new Map(),
  observed: new Map(),
  ...change,
});

describe("schedule", () => {
  test("does nothing when every task is where it should be", () => {
    const task = aTask("t1", { nodeId: "n1" });
    const state = aState({ tasks: [task], placed: new Map([["t1", placedOn("n1", task)]]) });
    expect(schedule(state)).toEqual([]);
  });

  test("places a task that has no placement", () => {
    expect(schedule(aState({ tasks: [aTask("t1")] }))).toMatchObject([
      { do: "place", nodeId: "n1", task: { id: "t1" } },
    ]);
  });

  test("moves desired forward and never back", () => {
    const task = aTask("t1", { desired: "removed", nodeId: "n1" });
    const placed = new Map([["t1", placedOn("n1", task)]]);
    expect(schedule(aState({ tasks: [task], placed }))).toMatchObject([{ do: "move", desired: "removed" }]);
    const back = aTask("t1", { desired: "running", nodeId: "n1" });
    expect(schedule(aState({ tasks: [back], placed: new Map([["t1", placedOn("n1", back, "removed")]]) }))).toEqual([]);
  });

  test("says how long what is to go may serve what is open, shortens that, and never lengthens it", () => {
    const leaving = (drainSeconds: number) => aTask("t1", { desired: "removed", drainSeconds, nodeId: "n1" });
    const after = (said: Placed, drainSeconds: number) =>
      schedule(aState({ tasks: [leaving(drainSeconds)], placed: new Map([["t1", said]]) }));
    const runs = placedOn("n1", aTask("t1"));
    expect(after(runs, 30)).toMatchObject([{ do: "move", desired: "removed", drainSeconds: 30 }]);
    const drains = placedOn("n1", leaving(30), "removed");
    expect(after(drains, 30)).toEqual([]);
    expect(after(drains, 0)).toMatchObject([{ do: "move", desired: "removed", drainSeconds: 0 }]);
    expect(after(placedOn("n1", leaving(0), "removed"), 30)).toEqual([]);
  });

  test.each([
    { when: "something of the project has waited for room", change: {}, ends: true },
    { when: "room may still be found", change: { waitedMs: roomMs - 1 }, ends: false },
    { when: "nobody has looked before", change: { refused: false }, ends: false },
    { when: "it is another project's", change: { projectId: "p2" }, ends: false },
    { when: "it has found some", change: { reservedMemoryMb: 1 }, ends: false },
    { when: "no node would take it with all of its room", change: { nodeSelector: { tier: "gold" } }, ends: false },
    { when: "it is not wanted any more", change: { desired: "removed" as const }, ends: false },
  ])("ends what drains on replaced containers, or not: $when", ({ change, ends }) => {
    const whole = { nodeId: "n1", reservedMemoryMb: 1_000 };
    const drains = aTask("t1", { ...whole, desired: "removed", drainSeconds: 30 });
    const told = aTask("t2", { ...whole, desired: "removed", drainSeconds: 0, reservedMemoryMb: 0 });
    const waits = aTask("t3", { refused: true, waitedMs: roomMs, ...change });
    const placed = new Map([drains, told].map((task) => [task.id, withRoom(placedOn("n1", task, "removed"), task)]));
    const steps = schedule(aState({ nodes: [aNode("n1")], tasks: [drains, told, waits], placed }));
    expect(steps.filter((step) => step.do === "endDrain")).toEqual(ends ? [{ do: "endDrain", taskId: "t1" }] : []);
  });

  test("forgets a placement only after its agent confirmed, or its node is gone for ever", () => {
    const task = aTask("t1", { desired: "removed", nodeId: "n1" });
    const placed = new Map([["t1", placedOn("n1", task, "removed")]]);
    expect(schedule(aState({ tasks: [task], placed }))).toEqual([]);
    const reap = [{ do: "reap", nodeId: "n1", taskId: "t1" }];
    expect(schedule(aState({ tasks: [task], placed, observed: new Map([["t1", { observed: "removed" }]]) }))).toEqual(
      reap,
    );
    expect(schedule(aState({ tasks: [task], placed, goneNodes: new Set(["n1"]) }))).toEqual(reap);
  });

  test("tells Postgres where a placement is when a leader died before it could", () => {
    const task = aTask("t1");
    const state = aState({ tasks: [task], placed: new Map([["t1", placedOn("n2", task)]]) });
    expect(schedule(state)).toEqual([{ do: "mirror", nodeId: "n2", taskId: "t1" }]);
  });

  test("a task that is given up before it was placed is never placed", () => {
    expect(schedule(aState({ tasks: [aTask("t1", { desired: "removed" })] }))).toEqual([
      { do: "reap", nodeId: null, taskId: "t1" },
    ]);
  });

  test("silence of a node frees no room on it", () => {
    const big = aTask("t1", { memoryMb: 1024, nodeId: "n1" });
    const state = aState({
      nodes: [aNode("n1")],
      tasks: [big, aTask("t2")],
      placed: new Map([["t1", placedOn("n1", big)]]),
    });
    expect(schedule(state)).toEqual([{ do: "refuse", taskId: "t2", refused: { "too little memory": 1 } }]);
    const ended = { ...state, observed: new Map([["t1", { observed: "failed" as const }]]) };
    expect(schedule(ended)).toMatchObject([{ do: "place", nodeId: "n1" }]);
  });
});
