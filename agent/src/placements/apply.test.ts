import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Assign_Kind, AssignSchema, Desired, Observed, PlacementSchema, ResourcesSchema } from "@svc/proto/node";
import fc from "fast-check";
import { expect, test } from "vitest";
import { apply, type Held } from "./apply.ts";

const chain = { clusterEpoch: 1n, leaderEpoch: 5n, resultsIn: "100", beginsAnew: false };

const aHeld = (changes: Partial<Held> = {}): Held => ({
  epoch: 1n,
  desired: Desired.RUNNING,
  observed: Observed.RUNNING,
  specHash: "h",
  isVisited: true,
  resources: undefined,
  ...changes,
});

const aPlacement = (placementId: string, changes: MessageInitShape<typeof PlacementSchema> = {}) =>
  create(PlacementSchema, { placementId, epoch: 1n, desired: Desired.RUNNING, specHash: "h", ...changes });

const anAssign = (changes: MessageInitShape<typeof AssignSchema>) =>
  create(AssignSchema, {
    kind: Assign_Kind.DELTA,
    clusterEpoch: 1n,
    leaderEpoch: 5n,
    appliesTo: "100",
    resultsIn: "101",
    ...changes,
  });

const running = (count: number): Map<string, Held> =>
  new Map(Array.from({ length: count }, (_, index) => [`p${index}`, aHeld()]));

test.each([
  { when: "it comes from an older cluster epoch", changes: { clusterEpoch: 0n }, outcome: "refuse" },
  { when: "it comes from an older leader", changes: { leaderEpoch: 4n }, outcome: "refuse" },
  { when: "it comes from a newer leader", changes: { leaderEpoch: 6n }, outcome: "accept" },
  { when: "a change does not continue the chain", changes: { appliesTo: "99" }, outcome: "resync" },
  { when: "a change comes from a restored cluster", changes: { clusterEpoch: 2n }, outcome: "resync" },
  {
    when: "a complete set is older than the chain",
    changes: { kind: Assign_Kind.COMPLETE, appliesTo: "", resultsIn: "99" },
    outcome: "refuse",
  },
  {
    when: "a complete set repeats the chain",
    changes: { kind: Assign_Kind.COMPLETE, appliesTo: "", resultsIn: "100" },
    outcome: "accept",
  },
  {
    when: "a complete set of a restored cluster has a lower revision",
    changes: { kind: Assign_Kind.COMPLETE, clusterEpoch: 2n, leaderEpoch: 1n, resultsIn: "7" },
    outcome: "accept",
  },
])("when $when: $outcome", ({ changes, outcome }) => {
  expect(apply(chain, new Map(), anAssign(changes)).outcome).toBe(outcome);
});

// A control whose view is behind would have it begin again what was removed since.
test.each([
  { assign: {}, outcome: "resync" },
  { assign: { kind: Assign_Kind.COMPLETE, appliesTo: "", resultsIn: "99" }, outcome: "refuse" },
  { assign: { kind: Assign_Kind.COMPLETE, appliesTo: "", resultsIn: "100" }, outcome: "accept" },
])("while everything is to be named again, $assign: $outcome", ({ assign, outcome }) => {
  const application = apply({ ...chain, beginsAnew: true }, new Map(), anAssign(assign));
  expect(application.outcome).toBe(outcome);
  if (application.outcome === "accept") expect(application.chain.beginsAnew).toBe(false);
});

test("what a complete set does not name is an orphan and is not stopped", () => {
  const assign = anAssign({ kind: Assign_Kind.COMPLETE, appliesTo: "", upserts: [aPlacement("p0")] });
  expect(apply(chain, running(2), assign)).toMatchObject({ orphans: ["p1"], adopted: ["p0"], removes: [] });
});

test("a change on top of the chain makes no orphans", () => {
  expect(apply(chain, running(2), anAssign({}))).toMatchObject({ orphans: [] });
});

test.each([
  { running: 3, stops: 3, bulkToken: "", outcome: "accept" },
  { running: 10, stops: 3, bulkToken: "", outcome: "accept" },
  { running: 10, stops: 4, bulkToken: "", outcome: "hold" },
  { running: 20, stops: 6, bulkToken: "", outcome: "accept" },
  { running: 20, stops: 7, bulkToken: "", outcome: "hold" },
  { running: 20, stops: 20, bulkToken: "drain", outcome: "accept" },
])("stopping $stops of $running with token '$bulkToken': $outcome", ({ running: count, stops, bulkToken, outcome }) => {
  const upserts = Array.from({ length: stops }, (_, index) => aPlacement(`p${index}`, { desired: Desired.STOPPED }));
  expect(apply(chain, running(count), anAssign({ upserts, bulkToken })).outcome).toBe(outcome);
  const removes = upserts.map(({ placementId, epoch }) => ({ placementId, epoch }));
  expect(apply(chain, running(count), anAssign({ removes, bulkToken })).outcome).toBe(outcome);
});

test("what nobody visits does not count as a stop, nor of what runs", () => {
  const unvisited = new Map([...running(20).keys()].map((id) => [id, aHeld({ isVisited: false })]));
  const removes = [...unvisited.keys()].map((placementId) => ({ placementId, epoch: 1n }));
  expect(apply(chain, unvisited, anAssign({ removes })).outcome).toBe("accept");
  const visited = new Map([...running(4)].map(([id, held]) => [`v${id}`, held]));
  const stops = [...visited.keys()].map((placementId) => ({ placementId, epoch: 1n }));
  expect(apply(chain, new Map([...unvisited, ...visited]), anAssign({ removes: stops })).outcome).toBe("hold");
});

test("what has stopped already does not count as a stop", () => {
  const held = new Map([...running(5).keys()].map((id) => [id, aHeld({ observed: Observed.STOPPED })]));
  const removes = [...held.keys()].map((placementId) => ({ placementId, epoch: 1n }));
  expect(apply(chain, held, anAssign({ removes })).outcome).toBe("accept");
});

test.each([
  { when: "of an older epoch", changes: { epoch: 0n }, reason: "older epoch than the one in force" },
  { when: "with another spec", changes: { specHash: "x" }, reason: "the spec of a placement never changes" },
  { when: "with an id that is no name", changes: { placementId: "../x" }, reason: "malformed id" },
])("a placement $when is rejected and the rest is taken", ({ changes, reason }) => {
  const upserts = [aPlacement("p0", changes), aPlacement("p9")];
  const result = apply(chain, running(1), anAssign({ upserts }));
  expect(result).toMatchObject({ outcome: "accept", rejects: [{ reason }] });
  expect(result.outcome === "accept" && result.upserts.map((placement) => placement.placementId)).toEqual(["p9"]);
});

test("a desired state never moves back", () => {
  const held = new Map([["p0", aHeld({ desired: Desired.STOPPED })]]);
  const result = apply(chain, held, anAssign({ upserts: [aPlacement("p0")] }));
  expect(result.outcome === "accept" && result.upserts[0]?.desired).toBe(Desired.STOPPED);
});

test.each([
  { when: "newer", held: 1n, sent: 2n, memoryMb: 256 },
  { when: "older", held: 3n, sent: 2n, memoryMb: 128 },
  { when: "of a control that does not number them, over numbered ones", held: 1n, sent: 0n, memoryMb: 128 },
  { when: "of a control that does not number them, over such ones", held: 0n, sent: 0n, memoryMb: 256 },
])("limits that are $when leave $memoryMb MB", ({ held: generation, sent, memoryMb }) => {
  const resources = create(ResourcesSchema, { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64, generation });
  const held = new Map([["p0", aHeld({ resources })]]);
  const upserts = [aPlacement("p0", { resources: { ...resources, memoryMb: 256, generation: sent } })];
  const result = apply(chain, held, anAssign({ upserts }));
  expect(result).toMatchObject({ rejects: [], upserts: [{ desired: Desired.RUNNING, resources: { memoryMb } }] });
});

test("an order to stop with older limits stops, and takes none of the newer ones back", () => {
  const resources = create(ResourcesSchema, { memoryMb: 128, generation: 2n });
  const held = new Map([["p0", aHeld({ resources })]]);
  const upserts = [aPlacement("p0", { desired: Desired.STOPPED, resources: { memoryMb: 64, generation: 1n } })];
  expect(apply(chain, held, anAssign({ upserts }))).toMatchObject({
    upserts: [{ desired: Desired.STOPPED, resources: { memoryMb: 128, generation: 2n } }],
  });
});

test("a remove of an older epoch is ignored", () => {
  const held = new Map([["p0", aHeld({ epoch: 4n })]]);
  const removes = [{ placementId: "p0", epoch: 3n }];
  expect(apply(chain, held, anAssign({ removes }))).toMatchObject({ removes: [] });
});

test("without a bulk token no message ever stops more than the limit", () => {
  const desired = fc.constantFrom(Desired.RUNNING, Desired.STOPPED, Desired.REMOVED);
  const complete = fc.boolean();
  fc.assert(
    fc.property(fc.array(desired, { maxLength: 30 }), fc.nat(30), complete, (wanted, removed, isComplete) => {
      const held = running(wanted.length);
      const assign = anAssign({
        kind: isComplete ? Assign_Kind.COMPLETE : Assign_Kind.DELTA,
        upserts: wanted.map((to, index) => aPlacement(`p${index}`, { desired: to })),
        removes: [...held.keys()].slice(0, removed).map((placementId) => ({ placementId, epoch: 1n })),
      });
      const result = apply(chain, held, assign);
      if (result.outcome !== "accept") return true;
      const stopping = new Set([
        ...result.removes,
        ...result.upserts.filter((placement) => placement.desired >= Desired.STOPPED).map((p) => p.placementId),
      ]);
      return stopping.size <= Math.max(3, wanted.length * 0.3);
    }),
  );
});
