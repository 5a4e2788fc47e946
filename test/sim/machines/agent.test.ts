import { expect, test } from "vitest";
import { World } from "../world/world.ts";
import { soundFooting } from "./footing.ts";

/** A cluster without sites, in which nothing is done but what a test does. */
function quietWorld() {
  const world = new World(1, { nodes: 1, edges: 1, replicas: 2, sites: 0, deeds: [] }, soundFooting);
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
