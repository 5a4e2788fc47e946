import { describe, expect, test } from "vitest";
import { type KeeperState, keepReplicas, type Replica, type Site } from "./steps.ts";

const now = new Date("2026-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);
const drainMs = 5_000;

const aReplica = (taskId: string, change: Partial<Replica> = {}): Replica => ({
  taskId,
  slot: 0,
  epoch: Number(taskId.replace(/\D/g, "")),
  nodeId: "n1",
  node: "present",
  connected: change.node !== "lost" && change.node !== "gone" && change.node !== "quarantined",
  hasNoRoom: false,
  serving: true,
  served: true,
  published: true,
  endedAt: null,
  retiring: false,
  retiringSince: null,
  unroutedAt: null,
  ...change,
});
const aSite = (running: Replica[], change: Partial<Site> = {}): Site => ({
  deploymentId: "d1",
  replicas: 1,
  running,
  replaced: new Map(),
  ...change,
});
const keep = (sites: Site[], change: Partial<KeeperState> = {}) =>
  keepReplicas({ now, storm: false, drainMs, sites, ...change });
/** Steps as short text: "replace 0: node lost", "retire t1", "remove t1". */
const stepsOf = (...given: Parameters<typeof keep>) =>
  keep(...given).map((step) =>
    step.do === "replace" ? `replace ${step.slot}: ${step.cause}` : `${step.do} ${step.taskId}`,
  );

describe("a site of one replica", () => {
  test.each<{
    when: string;
    running: Replica[];
    change?: Partial<KeeperState>;
    replaced?: Site["replaced"];
    steps: string[];
  }>([
    { when: "serves", running: [aReplica("t1")], steps: [] },
    { when: "does not answer for a moment", running: [aReplica("t1", { serving: false })], steps: [] },
    { when: "waits for a node", running: [aReplica("t1", { nodeId: null, serving: false })], steps: [] },
    { when: "has none", running: [], steps: ["replace 0: missing"] },
    { when: "is on a lost node", running: [aReplica("t1", { node: "lost" })], steps: ["replace 0: node lost"] },
    {
      when: "is on a lost node in a storm",
      running: [aReplica("t1", { node: "lost" })],
      change: { storm: true },
      steps: [],
    },
    {
      when: "is on a quarantined node in a storm",
      running: [aReplica("t1", { node: "quarantined" })],
      change: { storm: true },
      steps: [],
    },
    {
      when: "is on a fenced node, storm or not",
      running: [aReplica("t1", { node: "gone" })],
      change: { storm: true },
      steps: ["remove t1", "replace 0: node fenced"],
    },
    {
      when: "is on a draining node, storm or not",
      running: [aReplica("t1", { node: "draining" })],
      change: { storm: true },
      steps: ["replace 0: node draining"],
    },
    { when: "ended a moment ago", running: [aReplica("t1", { serving: false, endedAt: ago(60_000) })], steps: [] },
    {
      when: "ended five minutes ago",
      running: [aReplica("t1", { serving: false, endedAt: ago(300_000) })],
      steps: ["replace 0: ended"],
    },
    {
      when: "ended again, after one replacement for the same reason",
      running: [aReplica("t2", { serving: false, endedAt: ago(301_000) })],
      replaced: new Map([[0, { count: 2, lastAt: ago(900_000) }]]),
      steps: [],
    },
    {
      when: "has lost its replacement's node, too, a moment later",
      running: [aReplica("t2", { node: "lost" })],
      replaced: new Map([[0, { count: 1, lastAt: ago(5_000) }]]),
      steps: [],
    },
    {
      when: "has lost its replacement's node, too, some time later",
      running: [aReplica("t2", { node: "lost" })],
      replaced: new Map([[0, { count: 1, lastAt: ago(11_000) }]]),
      steps: ["replace 0: node lost"],
    },
    {
      when: "has a replacement that starts, its node being lost",
      running: [aReplica("t1", { node: "lost" }), aReplica("t2", { serving: false })],
      steps: [],
    },
    {
      when: "has a replacement that waits for a node, its own being emptied",
      running: [aReplica("t1", { node: "draining" }), aReplica("t2", { serving: false, nodeId: null })],
      steps: [],
    },
    {
      when: "has a replacement that serves",
      running: [aReplica("t1", { node: "lost" }), aReplica("t2")],
      steps: ["retire t1"],
    },
    {
      when: "has a replacement that serves, and its own container ended",
      running: [aReplica("t1", { serving: false, endedAt: ago(1) }), aReplica("t2")],
      steps: ["remove t1"],
    },
    {
      when: "is back before its replacement serves",
      running: [aReplica("t1"), aReplica("t2", { serving: false })],
      steps: ["retire t2"],
    },
    {
      when: "is back before its replacement has a node",
      running: [aReplica("t1"), aReplica("t2", { serving: false, nodeId: null })],
      steps: ["remove t2"],
    },
    {
      when: "is back when its replacement serves on a node that is being emptied",
      running: [aReplica("t1"), aReplica("t2", { node: "draining" })],
      steps: ["retire t2"],
    },
    {
      when: "is back after its replacement serves",
      running: [aReplica("t1"), aReplica("t2")],
      steps: ["retire t1"],
    },
    {
      when: "has a replacement on a node that is lost as well",
      running: [aReplica("t1", { node: "lost" }), aReplica("t2", { node: "lost", serving: false })],
      steps: ["retire t2"],
    },
    {
      when: "has a replacement that ended",
      running: [aReplica("t1", { node: "draining" }), aReplica("t2", { serving: false, endedAt: ago(1) })],
      steps: ["remove t2"],
    },
    {
      when: "leaves a container that an edge may still use",
      running: [aReplica("t1", { retiring: true }), aReplica("t2")],
      steps: [],
    },
    {
      when: "leaves a container whose last requests may be under way",
      running: [aReplica("t1", { retiring: true, unroutedAt: ago(drainMs - 1) }), aReplica("t2")],
      steps: [],
    },
    {
      when: "leaves a container that nobody uses",
      running: [aReplica("t1", { retiring: true, unroutedAt: ago(drainMs) }), aReplica("t2")],
      steps: ["remove t1"],
    },
    {
      when: "leaves a container of a node that is out of use",
      running: [aReplica("t1", { retiring: true, node: "gone" }), aReplica("t2")],
      steps: ["remove t1"],
    },
    {
      when: "leaves a container that nobody uses while no other one is sure to serve",
      running: [aReplica("t1", { retiring: true, unroutedAt: ago(drainMs) }), aReplica("t2", { serving: false })],
      steps: [],
    },
    {
      when: "leaves a container that nobody uses while the other one's node is silent",
      running: [aReplica("t1", { retiring: true, unroutedAt: ago(drainMs) }), aReplica("t2", { connected: false })],
      steps: [],
    },
    {
      when: "leaves a container that has ended while no other one is sure to serve",
      running: [
        aReplica("t1", { retiring: true, unroutedAt: ago(1), endedAt: ago(1), serving: false }),
        aReplica("t2", { serving: false }),
      ],
      steps: ["remove t1"],
    },
    {
      when: "is back by what its node said before it restarted, its replacement being about to serve",
      running: [aReplica("t1", { connected: false }), aReplica("t2", { serving: false })],
      steps: [],
    },
    {
      when: "has a replacement that served when its node was heard last",
      running: [aReplica("t1", { node: "draining" }), aReplica("t2", { connected: false })],
      steps: [],
    },
    {
      when: "has a replacement that serves by the last word of a node that is lost",
      running: [aReplica("t1", { node: "draining" }), aReplica("t2", { node: "lost" })],
      steps: ["retire t2"],
    },
    {
      when: "has a replacement that never had an address, and is back",
      running: [aReplica("t1"), aReplica("t2", { serving: false, served: false, published: false })],
      steps: ["retire t2"],
    },
    {
      when: "has a replacement that served last, both nodes being lost",
      running: [aReplica("t1", { node: "lost", serving: false }), aReplica("t2", { node: "lost" })],
      steps: ["retire t1"],
    },
    {
      when: "has a replacement on a node that went in a storm",
      running: [aReplica("t1", { node: "lost" }), aReplica("t2", { node: "lost", serving: false })],
      change: { storm: true },
      steps: [],
    },
    {
      when: "has only a replacement, which was refused a moment ago",
      running: [aReplica("t2", { serving: false, served: false, endedAt: ago(9_000) })],
      replaced: new Map([[0, { count: 1, lastAt: ago(12_000) }]]),
      steps: [],
    },
    {
      when: "has only a replacement, which was refused some time ago",
      running: [aReplica("t2", { serving: false, served: false, endedAt: ago(10_000) })],
      replaced: new Map([[0, { count: 1, lastAt: ago(12_000) }]]),
      steps: ["replace 0: ended"],
    },
    {
      when: "has only a replacement, the fourth that was refused",
      running: [aReplica("t5", { serving: false, served: false, endedAt: ago(79_000) })],
      replaced: new Map([[0, { count: 4, lastAt: ago(82_000) }]]),
      steps: [],
    },
    {
      when: "loses the one that took over before the old one went",
      running: [aReplica("t1", { retiring: true }), aReplica("t2", { node: "lost" })],
      steps: ["replace 0: node lost"],
    },
  ])("that $when", ({ running, change, replaced, steps }) => {
    expect(stepsOf([aSite(running, replaced && { replaced })], change)).toEqual(steps);
  });
});

describe("a site of several replicas", () => {
  test("replaces all that were lost at once", () => {
    const running = [0, 1, 2].map((slot) => aReplica(`t${slot}`, { slot, node: "lost" }));
    expect(stepsOf([aSite(running, { replicas: 3 })])).toHaveLength(3);
  });

  test("moves off draining nodes one by one", () => {
    const running = [0, 1, 2].map((slot) => aReplica(`t${slot}`, { slot, node: "draining" }));
    expect(stepsOf([aSite(running, { replicas: 3 })])).toEqual(["replace 0: node draining"]);
    const onTheMove = [...running, aReplica("t9", { slot: 0, serving: false })];
    expect(stepsOf([aSite(onTheMove, { replicas: 3 })])).toEqual([]);
  });

  test("that is to have fewer lets the highest go", () => {
    const running = [0, 1, 2].map((slot) => aReplica(`t${slot}`, { slot }));
    expect(stepsOf([aSite(running, { replicas: 2 })])).toEqual(["retire t2"]);
  });
});

test("no more than four sites at once move off one node", () => {
  const site = (n: number) => aSite([aReplica(`t${n}`, { node: "draining" })], { deploymentId: `d${n}` });
  const moving = aSite([aReplica("t90", { node: "draining" }), aReplica("t91", { serving: false, nodeId: "n2" })]);
  expect(keep([...Array.from({ length: 9 }, (_, n) => site(n)), moving])).toHaveLength(3);
});

describe("what has no room anywhere", () => {
  const draining = (n: number) => aReplica(`t${n}`, { node: "draining" });
  const stuck = (n: number, change: Partial<Replica>) =>
    aSite([draining(n), aReplica(`t${n + 100}`, { nodeId: null, serving: false, served: false, ...change })], {
      deploymentId: `d${n}`,
    });
  const others = Array.from({ length: 9 }, (_, n) => aSite([draining(n)], { deploymentId: `d${n}` }));

  test("does not hold up the others of its node", () => {
    const sites = [20, 21, 22, 23].map((n) => stuck(n, { hasNoRoom: true }));
    expect(keep([...sites, ...others])).toHaveLength(4);
  });

  test("is only what was looked for: what is about to get a node counts", () => {
    const sites = [20, 21, 22, 23].map((n) => stuck(n, { hasNoRoom: false }));
    expect(keep([...sites, ...others])).toEqual([]);
  });
});

describe("what waits for an edge that does not follow", () => {
  const leaving = (n: number, sinceMs: number) =>
    aReplica(`t${n}`, { node: "draining", retiring: true, retiringSince: ago(sinceMs) });
  const others = Array.from({ length: 9 }, (_, n) =>
    aSite([aReplica(`t${n}`, { node: "draining" })], { deploymentId: `d${n}` }),
  );

  test("does not hold up the others of its node for long", () => {
    const sites = (sinceMs: number) =>
      [20, 21, 22, 23].map((n) => aSite([leaving(n, sinceMs), aReplica(`t${n + 100}`, { nodeId: "n2" })]));
    expect(keep([...sites(59_000), ...others])).toEqual([]);
    expect(keep([...sites(60_000), ...others])).toHaveLength(4);
  });

  test("does not become more and more", () => {
    const many = [1, 2, 3, 4].map((n) => leaving(n, 3_600_000));
    expect(keep([aSite([...many, aReplica("t9", { node: "draining" })])])).toEqual([]);
    expect(stepsOf([aSite([...many, aReplica("t9", { node: "lost" })])])).toEqual(["replace 0: node lost"]);
  });
});

test("a round makes a bounded number of containers", () => {
  const lost = Array.from({ length: 500 }, (_, n) =>
    aSite([aReplica(`t${n}`, { node: "lost" })], { deploymentId: `d${n}` }),
  );
  expect(keep(lost)).toHaveLength(200);
});

describe("whatever happens", () => {
  const nodes = ["present", "draining", "lost", "quarantined", "gone"] as const;
  const every = nodes.flatMap((node) =>
    [true, false].flatMap((serving) =>
      [null, ago(1), ago(3_600_000)].flatMap((endedAt) =>
        [true, false].map((retiring) => ({ node, serving: serving && endedAt === null, endedAt, retiring })),
      ),
    ),
  );

  test("the last container that serves on a node in use is neither removed nor retired", () => {
    for (const first of every) {
      for (const second of every) {
        const running = [aReplica("t1", first), aReplica("t2", second)];
        const ended = new Set(keep([aSite(running)]).flatMap((step) => (step.do === "replace" ? [] : [step.taskId])));
        const isUp = ({ serving, retiring, node }: Replica) => serving && !retiring && node !== "gone";
        if (running.some(isUp)) expect(running.filter(isUp).some(({ taskId }) => !ended.has(taskId))).toBe(true);
      }
    }
  });

  test("a slot never has a third container that is not on its way out", () => {
    for (const first of every) {
      for (const second of every) {
        const running = [aReplica("t1", first), aReplica("t2", second)];
        const steps = keep([aSite(running)]);
        const leaving = new Set(steps.flatMap((step) => (step.do === "replace" ? [] : [step.taskId])));
        const left = running.filter(({ taskId, retiring }) => !retiring && !leaving.has(taskId)).length;
        expect(left + steps.filter((step) => step.do === "replace").length).toBeLessThanOrEqual(2);
      }
    }
  });
});
