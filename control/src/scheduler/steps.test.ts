import { describe, expect, test } from "vitest";
import { explainRefusal, place, type SchedulableNode } from "./placement.ts";
import { type ClusterState, type DesiredTask, type Placed, schedule } from "./steps.ts";

const aNode = (id: string, change: Partial<SchedulableNode> = {}): SchedulableNode => ({
  id,
  connected: true,
  schedulable: true,
  diskFull: false,
  os: "linux",
  architecture: "amd64",
  memoryMb: 1024,
  cpuMillicores: 2000,
  pids: 4096,
  ...change,
});

const aTask = (id: string, change: Partial<DesiredTask> = {}): DesiredTask => ({
  id,
  projectId: "p1",
  deploymentId: "d1",
  kind: "serve",
  channel: "production",
  epoch: 1,
  desired: "running",
  specHash: "h",
  memoryMb: 256,
  cpuMillicores: 500,
  pidsLimit: 100,
  platform: null,
  nodeId: null,
  refused: false,
  ...change,
});

const placedOn = (nodeId: string, task: DesiredTask, desired: Placed["desired"] = "running"): Placed => ({
  placementId: task.id,
  nodeId,
  epoch: task.epoch,
  desired,
  kind: task.kind,
  specHash: task.specHash,
  projectId: task.projectId,
  deploymentId: task.deploymentId,
  channel: task.channel,
  memoryMb: task.memoryMb,
  cpuMillicores: task.cpuMillicores,
  pidsLimit: task.pidsLimit,
  limitsGeneration: 0,
  modRevision: 1n,
});

const aState = (change: Partial<ClusterState> = {}): ClusterState => ({
  nodes: [aNode("n1"), aNode("n2")],
  goneNodes: new Set(),
  tasks: [],
  placed: new Map(),
  observed: new Map(),
  ...change,
});

describe("place", () => {
  test.each([
    { when: "the only node is cordoned", node: { schedulable: false }, reason: "cordoned or draining" },
    { when: "the only node has no disk space left", node: { diskFull: true }, reason: "disk almost full" },
    { when: "the only node has no stream", node: { connected: false }, reason: "not connected" },
    { when: "memory is short", node: { memoryMb: 128 }, reason: "too little memory" },
    { when: "processor is short", node: { cpuMillicores: 400 }, reason: "too few processor shares" },
    { when: "process ids are short", node: { pids: 50 }, reason: "too few process ids" },
  ])("refuses and says why when $when", ({ node, reason }) => {
    const decision = place([aNode("n1", node)], [], [aTask("t1")]).get("t1");
    expect(decision).toEqual({ refused: { [reason]: 1 } });
  });

  test("refuses an image of another platform", () => {
    const request = aTask("t1", { platform: { os: "linux", architecture: "arm64" } });
    expect(place([aNode("n1")], [], [request]).get("t1")).toEqual({ refused: { "another platform": 1 } });
  });

  test("spreads containers of one project over nodes", () => {
    const decisions = place([aNode("n1"), aNode("n2")], [], [aTask("t1"), aTask("t2")]);
    expect(new Set([...decisions.values()].map((d) => "nodeId" in d && d.nodeId))).toEqual(new Set(["n1", "n2"]));
  });

  test("fills the fuller node first, so that large requests still fit", () => {
    const nodes = [aNode("n1"), aNode("n2", { memoryMb: 512 })];
    expect(place(nodes, [], [aTask("t1")]).get("t1")).toEqual({ nodeId: "n2" });
  });

  test("keeps builds away from where sites run", () => {
    const site = { ...aTask("t1"), nodeId: "n2" };
    const build = aTask("b1", { kind: "build" });
    expect(place([aNode("n1"), aNode("n2")], [site], [build]).get("b1")).toEqual({ nodeId: "n1" });
    expect(place([aNode("n1"), aNode("n2")], [], [build]).get("b1")).toEqual({ nodeId: "n2" });
    expect(place([aNode("n1"), aNode("n2")], [], [aTask("t2")]).get("t2")).toEqual({ nodeId: "n1" });
  });

  test("never gives out more than a node has, within one batch too", () => {
    const requests = Array.from({ length: 10 }, (_, i) => aTask(`t${i}`, { memoryMb: 400, cpuMillicores: 100 }));
    const placed = [...place([aNode("n1"), aNode("n2")], [], requests).values()].filter((d) => "nodeId" in d);
    expect(placed).toHaveLength(4);
  });

  test("explains in words, the most frequent reason first", () => {
    expect(explainRefusal({ "too little memory": 2, "not connected": 1 })).toBe(
      "2 nodes: too little memory; 1 node: not connected",
    );
    expect(explainRefusal({})).toBe("no node has joined the cluster");
  });
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
