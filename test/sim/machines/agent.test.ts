import { create } from "@bufbuild/protobuf";
import { freshMemory } from "@svc/agent/journal/records";
import { createPlacements } from "@svc/agent/placements/placements";
import { Assign_Kind, AssignSchema, Desired, Observed, PlacementSchema, PlacementStatusSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { virtualClock } from "../kernel/ports.ts";
import { World } from "../world/world.ts";
import { virtualJournal } from "./disk.ts";
import { virtualEngine } from "./engine.ts";
import { soundFooting } from "./footing.ts";
import { virtualLog } from "./log.ts";
import { virtualMachine } from "./sights.ts";

/** A cluster without sites, in which nothing is done but what a test does. */
function quietWorld() {
  const world = new World(
    1,
    { nodes: 1, edges: 1, replicas: 2, sites: 0, hasDatabases: false, deeds: [] },
    soundFooting,
  );
  const [node] = world.nodes;
  if (node === undefined) throw new Error("no node");
  for (const replica of world.replicas) world.kernel.at(0, "start", () => replica.start());
  world.kernel.at(100, "start", () => node.start());
  return { world, node };
}

test("a node whose engine hangs is connected all the same", async () => {
  const { world, node } = quietWorld();
  node.docker.hungUntilMs = Number.POSITIVE_INFINITY;
  await world.kernel.run(30_000);
  expect(node.isConnected).toBe(true);
  expect(world.checks.found).toBeNull();
});

test("an agent that is started anew goes on, and the one before it does nothing more", async () => {
  const { world, node } = quietWorld();
  await world.kernel.run(5_000);
  const { reporter } = node;
  node.crash(true);
  expect(node.isConnected).toBe(false);
  node.start();
  await world.kernel.run(15_000);
  expect(node.isConnected).toBe(true);
  expect(node.reporter).not.toBe(reporter);
  expect(world.checks.found).toBeNull();
});

test("what was removed, and is named by a later part of what is to run, goes on from what was said of it", () => {
  const { world, node } = quietWorld();
  const { process, docker, address } = node;
  process.start();
  const clock = virtualClock(process);
  const journal = virtualJournal(node.disk, process);
  const placement = { placementId: "p1", epoch: 7n, specHash: "hash", desired: Desired.REMOVED };
  journal.savePlacement({
    placement: create(PlacementSchema, placement),
    status: create(PlacementStatusSchema, { placementId: "p1", epoch: 7n, statusSeq: 5n, observed: Observed.REMOVED }),
    ...{ memory: freshMemory, orphan: false },
  });
  const placements = createPlacements({
    ...{ clock, journal, address, log: virtualLog(process), machine: virtualMachine(process.scope, docker, "boot") },
    engine: virtualEngine(clock, process.scope, docker, { clusterId: "cluster", nodeId: "n1" }, address),
    createRunner: () => ({}) as never,
    onStatus() {},
  });
  const at = { clusterEpoch: 1n, leaderEpoch: 1n, resultsIn: "9" };
  placements.assign(create(AssignSchema, { ...at, kind: Assign_Kind.COMPLETE }));
  placements.assign(create(AssignSchema, { ...at, kind: Assign_Kind.DELTA, appliesTo: "9", upserts: [placement] }));
  expect(placements.find("p1")?.status).toMatchObject({ statusSeq: 5n, observed: Observed.REMOVED });
  expect(placements.find("p1")?.orphan).toBe(false);
  expect(world.checks.found).toBeNull();
});
