import { describe, expect, test } from "vitest";
import { createRoom } from "./node-room.ts";
import { explainRefusal, type Hints, place, placeIn } from "./placement.ts";
import { failureKey, noHints } from "./score.ts";
import { aNode, aTask } from "./testing.ts";

const site = (nodeId: string, change: Parameters<typeof aTask>[1] = {}) => ({ ...aTask("other", change), nodeId });
const nodeOf = (decision: ReturnType<typeof place> extends Map<string, infer D> ? D | undefined : never) =>
  decision !== undefined && "nodeId" in decision ? decision.nodeId : null;

describe("a node refuses", () => {
  test.each([
    { when: "it has no stream", node: { link: "unreachable" as const }, reason: "not connected" },
    { when: "nobody knows of its stream", node: { link: "unknown" as const }, reason: "not connected" },
    { when: "it has not told what it runs yet", node: { link: "reconciling" as const }, reason: "not connected" },
    { when: "it has been silent", node: { link: "suspect" as const }, reason: "silent for some seconds" },
    { when: "it is cordoned", node: { schedulable: false }, reason: "cordoned" },
    { when: "it drains", node: { schedulable: false, draining: true }, reason: "draining" },
    { when: "two machines use its name", node: { quarantined: true }, reason: "quarantined" },
    { when: "it has no disk space left", node: { diskFull: true }, reason: "disk almost full" },
    {
      when: "its engine does not answer",
      node: { engineStalled: true },
      reason: "its container engine does not answer",
    },
    {
      when: "its engine must not build a user's Dockerfile",
      node: { refusesDockerfiles: true },
      task: { kind: "build" as const, hasDockerfile: true },
      reason: "a container engine that is too old for Dockerfiles and does not remap users",
    },
    {
      when: "its labels are others",
      node: { labels: { disk: "slow" } },
      task: { nodeSelector: { disk: "fast" } },
      reason: "without the labels of the plan, which operators set",
    },
    {
      when: "its zone is the one, and no operator says so",
      node: { zone: "a" },
      task: { nodeSelector: { disk: "fast", zone: "a" } },
      reason: "without the labels of the plan, which operators set",
    },
    {
      when: "it is of another platform",
      task: { platform: { os: "linux", architecture: "arm64" } },
      reason: "another platform",
    },
    { when: "memory is short", taken: { memoryMb: 800 }, reason: "too little memory" },
    { when: "processor is short", taken: { cpuMillicores: 1_600 }, reason: "too few processor shares" },
    { when: "process ids are short", taken: { pidsLimit: 4_000 }, reason: "too few process ids" },
    {
      when: "the image or the database is larger than its disk",
      node: { diskMb: 100 },
      task: { diskMb: 101 },
      reason: "a disk smaller than it needs",
    },
    {
      when: "it is down and full, telling what comes first",
      node: { link: "unreachable" as const, diskFull: true },
      taken: { memoryMb: 800 },
      reason: "not connected",
    },
  ])("when $when", ({ node = {}, task = {}, taken, reason }) => {
    const others = taken === undefined ? [] : [site("n1", { memoryMb: 0, cpuMillicores: 0, pidsLimit: 0, ...taken })];
    const request = aTask("t1", task);
    expect(place([aNode("n1", node)], others, [request]).get("t1")).toEqual({ refused: { [reason]: 1 } });
    const architecture = request.platform?.architecture ?? "amd64";
    const good = aNode("n2", { labels: { disk: "fast", zone: "a" }, architecture });
    expect(nodeOf(place([aNode("n1", node), good], others, [request]).get("t1"))).toBe("n2");
  });

  test("a third build at once", () => {
    const builds = ["a", "b", "c"].map((id) => aTask(id, { kind: "build", memoryMb: 1 }));
    expect(place([aNode("n1")], [], builds).get("c")).toEqual({ refused: { "busy building": 1 } });
  });

  test.each([
    { what: "memory", change: { memoryMb: 1_025 }, reason: "less memory in all than it needs" },
    { what: "processors", change: { cpuMillicores: 2_001 }, reason: "fewer processors in all than it needs" },
    { what: "process ids", change: { pidsLimit: 4_097 }, reason: "fewer process ids in all than it needs" },
  ])("and where none has so much $what in all, that is said", ({ change, reason }) => {
    const decision = place([aNode("n1"), aNode("n2", { link: "unreachable" })], [], [aTask("t1", change)]).get("t1");
    expect(decision).toEqual({ refused: { [reason]: 2 } });
    expect(explainRefusal({ [reason]: 2 })).toBe(
      `every node has ${reason}; a larger node or a smaller plan would help`,
    );
  });

  test("a node that never said what it has does not count as too small", () => {
    const silent = aNode("n1", { link: "unreachable", memoryMb: 0, cpuMillicores: 0, pids: 0 });
    expect(place([silent], [], [aTask("t1")]).get("t1")).toEqual({ refused: { "not connected": 1 } });
  });

  test("explains in words, the most frequent reason first", () => {
    expect(explainRefusal({ "too little memory": 2, "not connected": 1 })).toBe(
      "2 nodes: too little memory; 1 node: not connected",
    );
    expect(explainRefusal({})).toBe("no node has joined the cluster");
  });
});

describe("what can run on one node alone", () => {
  const nodes = [aNode("n1", { memoryMb: 300 }), aNode("n2"), aNode("n3")];

  test.each([
    { when: "that node has room", change: { pinnedTo: "n1" }, is: { nodeId: "n1" } },
    { when: "others suit its kind better", change: { pinnedTo: "n3", kind: "build" as const }, is: { nodeId: "n3" } },
    {
      when: "that node has no room, whatever others have",
      change: { pinnedTo: "n1", memoryMb: 301 },
      is: { refused: { "too little memory": 1 } },
    },
    {
      when: "that node is no more",
      change: { pinnedTo: "n9" },
      is: { refused: { "gone, the only one that it can run on": 1 } },
    },
  ])("waits for that node, when $when", ({ change, is }) => {
    expect(place(nodes, [], [aTask("t1", change)]).get("t1")).toEqual(is);
  });

  test("takes the room that it has there from what comes after it, and no more than there is", () => {
    const tasks = ["t1", "t2"].map((id) => aTask(id, { pinnedTo: "n1" }));
    const decisions = place(nodes.slice(0, 1), [], [...tasks, aTask("t3")]);
    expect(nodeOf(decisions.get("t1"))).toBe("n1");
    expect([decisions.get("t2"), decisions.get("t3")]).toEqual(
      ["t2", "t3"].map(() => ({ refused: { "too little memory": 1 } })),
    );
  });
});

describe("of the nodes that take it", () => {
  test("containers of one deployment get one each", () => {
    const decisions = place([aNode("n1"), aNode("n2")], [], [aTask("t1"), aTask("t2")]);
    expect(new Set([...decisions.values()].map(nodeOf))).toEqual(new Set(["n1", "n2"]));
  });

  test("two containers of one deployment share one only when no other takes them, and then the one with the fewest", () => {
    const nodes = [aNode("n1"), aNode("n2"), aNode("n3", { schedulable: false })];
    const decisions = place(
      nodes,
      [],
      ["t1", "t2", "t3", "t4"].map((id) => aTask(id)),
    );
    expect([...decisions.values()].map(nodeOf).sort()).toEqual(["n1", "n1", "n2", "n2"]);
  });

  test("containers of one deployment get zones of their own before they fill nodes up", () => {
    const nodes = [aNode("n1", { zone: "a" }), aNode("n2", { zone: "a" }), aNode("n3", { zone: "b" })];
    // n2 is the tightest.
    const others = [site("n1", { ownerId: "d1" }), site("n2", { ownerId: "d2", memoryMb: 512 })];
    expect(nodeOf(place(nodes, others, [aTask("t1")]).get("t1"))).toBe("n3");
    expect(nodeOf(place(nodes, others, [aTask("t1", { ownerId: "d3" })]).get("t1"))).toBe("n2");
  });

  test("the fuller one is filled first, so that large requests still fit", () => {
    const nodes = [aNode("n1"), aNode("n2", { memoryMb: 512 })];
    expect(nodeOf(place(nodes, [], [aTask("t1")]).get("t1"))).toBe("n2");
  });

  test("processor counts as memory does", () => {
    const nodes = [aNode("n1"), aNode("n2", { cpuMillicores: 600 })];
    expect(nodeOf(place(nodes, [], [aTask("t1")]).get("t1"))).toBe("n2");
  });

  test("the one that has the image wins when the others are as good", () => {
    const nodes = ["n1", "n2", "n3"].map((id) => aNode(id));
    const hints: Hints = { ...noHints, images: new Map([["h", new Set(["n3"])]]) };
    expect(nodeOf(place(nodes, [], [aTask("t1")], { hints }).get("t1"))).toBe("n3");
  });

  test("the image is found among thousands, and does not go before spread", () => {
    const nodes = Array.from({ length: 3_000 }, (_, index) => aNode(`n${index}`));
    const hints: Hints = { ...noHints, images: new Map([["h", new Set(["n1234"])]]) };
    expect(nodeOf(place(nodes, [], [aTask("t1")], { hints }).get("t1"))).toBe("n1234");
    expect(nodeOf(place(nodes, [site("n1234")], [aTask("t1")], { hints }).get("t1"))).not.toBe("n1234");
  });

  test("one where the project's tasks keep failing is the last, and still better than none", () => {
    const hints = (count: number): Hints => ({ ...noHints, failures: new Map([[failureKey("n1", "p1"), count]]) });
    const nodes = [aNode("n1", { memoryMb: 512 }), aNode("n2")];
    const chosen = (count: number, of = nodes, projectId = "p1") =>
      nodeOf(place(of, [], [aTask("t1", { projectId })], { hints: hints(count) }).get("t1"));
    expect([chosen(4), chosen(5)]).toEqual(["n1", "n2"]);
    expect(chosen(5, nodes, "p2")).toBe("n1");
    expect(chosen(5, nodes.slice(0, 1))).toBe("n1");
  });

  test("builds keep away from where sites run", () => {
    const build = aTask("b1", { kind: "build" });
    expect(nodeOf(place([aNode("n1"), aNode("n2")], [site("n2")], [build]).get("b1"))).toBe("n1");
    expect(nodeOf(place([aNode("n1"), aNode("n2")], [], [build]).get("b1"))).toBe("n2");
    expect(nodeOf(place([aNode("n1"), aNode("n2")], [], [aTask("t2")]).get("t2"))).toBe("n1");
  });

  test("a build goes where no other one is, however empty the others are", () => {
    const nodes = [aNode("n1"), aNode("n2", { memoryMb: 8_192, cpuMillicores: 8_000 })];
    const other = site("n2", { kind: "build", memoryMb: 1 });
    expect(nodeOf(place(nodes, [other], [aTask("b1", { kind: "build" })]).get("b1"))).toBe("n1");
  });
});

test("ten thousand requests of one class that fit nowhere cost one look at each node", () => {
  let looks = 0;
  const room = createRoom(
    Array.from({ length: 1_000 }, (_, index) => aNode(`n${index}`)),
    [],
  );
  const watched = room.nodes.map((each) => ({
    ...each,
    get memoryMb() {
      looks += 1;
      return 0;
    },
  }));
  const requests = Array.from({ length: 10_000 }, (_, index) => aTask(`t${index}`));
  const decisions = placeIn({ ...room, nodes: watched }, requests);
  expect(decisions.get("t9999")).toEqual({ refused: { "too little memory": 1_000 } });
  expect(looks).toBe(1_000);
});
