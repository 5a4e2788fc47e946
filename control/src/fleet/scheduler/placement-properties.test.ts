import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type PlacementRequest, place, type Reservation, type SchedulableNode } from "./placement.ts";
import { aNode, aTask } from "./testing.ts";

const anyNode = fc.record({
  link: fc.constantFrom("connected", "connected", "connected", "suspect", "unreachable"),
  schedulable: fc.integer({ min: 0, max: 9 }).map((n) => n !== 0),
  draining: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  quarantined: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  diskFull: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  engineStalled: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  refusesDockerfiles: fc.boolean(),
  architecture: fc.constantFrom("amd64", "arm64"),
  labels: fc.constantFrom({}, {}, { disk: "slow" }, { disk: "fast" }),
  zone: fc.constantFrom("", "a", "b", "a"),
  memoryMb: fc.integer({ min: 0, max: 2_048 }),
  cpuMillicores: fc.integer({ min: 0, max: 4_000 }),
  pids: fc.integer({ min: 0, max: 1_000 }),
}) as fc.Arbitrary<Partial<SchedulableNode>>;

const anyRequest = fc.record({
  kind: fc.constantFrom("serve", "serve", "serve", "build"),
  ownerId: fc.constantFrom("d1", "d2", "d3"),
  memoryMb: fc.constantFrom(64, 256, 1_024),
  cpuMillicores: fc.constantFrom(100, 500, 2_000),
  pidsLimit: fc.constantFrom(10, 100),
  platform: fc.constantFrom(null, { os: "linux", architecture: "amd64" }),
  nodeSelector: fc.constantFrom({}, {}, { disk: "fast" }),
  hasDockerfile: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
}) as fc.Arbitrary<Partial<PlacementRequest>>;

const anyCluster = fc
  .record({
    nodes: fc.array(anyNode, { maxLength: 40 }),
    taken: fc.array(fc.record({ at: fc.nat(), request: anyRequest }), { maxLength: 40 }),
    requests: fc.array(anyRequest, { maxLength: 60 }),
    seed: fc.nat(),
  })
  .map(({ nodes, taken, requests, seed }) => {
    const all = nodes.map((change, index) => aNode(`n${String(index).padStart(2, "0")}`, change));
    return {
      nodes: all,
      taken: taken.flatMap(({ at, request }, index): Reservation[] => {
        const node = all[at % Math.max(all.length, 1)];
        return node === undefined ? [] : [{ ...aTask(`r${index}`, request), nodeId: node.id }];
      }),
      requests: requests.map((change, index): PlacementRequest => aTask(`t${index}`, change)),
      seed,
    };
  });

interface Cluster {
  nodes: SchedulableNode[];
  taken: Reservation[];
}

/** What a node has left, counted the slow way. */
function left(node: SchedulableNode, taken: readonly Reservation[]) {
  const own = taken.filter(({ nodeId }) => nodeId === node.id);
  return {
    memoryMb: own.reduce((free, { memoryMb }) => free - memoryMb, node.memoryMb),
    cpuMillicores: own.reduce((free, { cpuMillicores }) => free - cpuMillicores, node.cpuMillicores),
    pids: own.reduce((free, { pidsLimit }) => free - pidsLimit, node.pids),
    builds: own.filter(({ kind }) => kind === "build").length,
  };
}

/** Whether a node would have to be refused, written without the scheduler. */
function takes({ nodes, taken }: Cluster, nodeId: string, request: PlacementRequest): boolean {
  const node = nodes.find(({ id }) => id === nodeId);
  if (node === undefined) return false;
  const free = left(node, taken);
  const { platform, nodeSelector } = request;
  return (
    node.link === "connected" &&
    node.schedulable &&
    !node.draining &&
    !node.quarantined &&
    !node.diskFull &&
    !node.engineStalled &&
    !(node.refusesDockerfiles && request.hasDockerfile) &&
    (platform === null || platform.architecture === node.architecture) &&
    Object.entries(nodeSelector).every(([name, value]) => node.labels[name] === value) &&
    free.memoryMb >= request.memoryMb &&
    free.cpuMillicores >= request.cpuMillicores &&
    free.pids >= request.pidsLimit &&
    (request.kind === "serve" || free.builds < 2)
  );
}

/** Each decision with what was taken when it was made. */
function replayed({ nodes, taken, requests, seed }: Cluster & { requests: PlacementRequest[]; seed: number }) {
  const decisions = place(nodes, taken, requests, { seed });
  const sofar = [...taken];
  return requests.map((request) => {
    const decision = decisions.get(request.id);
    const before = [...sofar];
    if (decision !== undefined && "nodeId" in decision) sofar.push({ ...request, nodeId: decision.nodeId });
    return { request, decision, before };
  });
}

const check = (property: (cluster: Cluster & { requests: PlacementRequest[]; seed: number }) => void) =>
  fc.assert(fc.property(anyCluster, property), { numRuns: 300 });

describe("whatever the cluster looks like", () => {
  test("nothing goes where it must not, nor where there is no room", () =>
    check((cluster) => {
      for (const { request, decision, before } of replayed(cluster)) {
        if (decision === undefined || "refused" in decision) continue;
        expect(takes({ ...cluster, taken: before }, decision.nodeId, request)).toBe(true);
      }
    }));

  test("what is refused fits nowhere, and the counts are those of all nodes", () =>
    check((cluster) => {
      for (const { request, decision, before } of replayed(cluster)) {
        if (decision === undefined || "nodeId" in decision) continue;
        expect(cluster.nodes.filter(({ id }) => takes({ ...cluster, taken: before }, id, request))).toEqual([]);
        const counted = Object.values(decision.refused).reduce((sum, count) => sum + count, 0);
        expect(counted).toBe(cluster.nodes.length);
      }
    }));

  test("two of one deployment share a node only where no other takes it", () =>
    check((cluster) => {
      for (const { request, decision, before } of replayed(cluster)) {
        if (request.kind === "build" || decision === undefined || "refused" in decision) continue;
        const has = (nodeId: string) =>
          before.some((each) => each.kind === "serve" && each.nodeId === nodeId && each.ownerId === request.ownerId);
        if (!has(decision.nodeId)) continue;
        const others = cluster.nodes.filter(({ id }) => !has(id) && takes({ ...cluster, taken: before }, id, request));
        expect(others).toEqual([]);
      }
    }));

  test("the same question has the same answer", () =>
    check(({ nodes, taken, requests, seed }) => {
      expect(place(nodes, taken, requests, { seed })).toEqual(place(nodes, taken, requests, { seed }));
    }));

  test("no request goes without an answer", () =>
    check(({ nodes, taken, requests, seed }) => {
      expect([...place(nodes, taken, requests, { seed }).keys()]).toEqual(requests.map(({ id }) => id));
    }));
});
