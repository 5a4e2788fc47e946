import { expect, test } from "vitest";
import { World } from "../world/world.ts";
import { soundFooting } from "./footing.ts";

const host = "p1.test";

/** A cluster with one edge and one site, in which nothing is done but what a test does. It serves since a while. */
async function quietWorld() {
  const world = new World(
    1,
    { nodes: 1, edges: 1, replicas: 2, sites: 1, hasDatabases: false, deeds: [] },
    soundFooting,
  );
  const [edge] = world.edges;
  if (edge === undefined) throw new Error("no edge");
  for (const replica of world.replicas) world.kernel.at(0, "start", () => replica.start());
  world.kernel.at(100, "start", () => edge.start());
  await world.kernel.run(10_000);
  expect(edge.caddy.targetOf(host)).toBe("x~empty");
  return { world, edge };
}

test("an edge whose power was off serves what it had, with nobody there to ask", async () => {
  const { world, edge } = await quietWorld();
  for (const replica of world.replicas) replica.crash(true);
  edge.powerOff();
  expect(edge.caddy.targetOf(host)).toBeNull();
  edge.powerOn();
  await world.kernel.run(20_000);
  expect(edge.caddy.targetOf(host)).toBe("x~empty");
  expect(edge.caddy.isConfigured).toBe(true);
  expect(world.checks.found).toBeNull();
});

test("a Caddy that ended and was started again has its configuration and its table", async () => {
  const { world, edge } = await quietWorld();
  edge.caddy.crash();
  await world.kernel.run(12_000);
  expect(edge.caddy.isConfigured).toBe(false);
  edge.caddy.start();
  await world.kernel.run(20_000);
  expect(edge.caddy.isConfigured).toBe(true);
  expect(edge.caddy.targetOf(host)).toBe("x~empty");
  expect(world.checks.found).toBeNull();
});

test("a router that is started anew goes on from its disk, and the one before it does nothing more", async () => {
  const { world, edge } = await quietWorld();
  const { generation } = edge;
  edge.crash(true);
  edge.start();
  await world.kernel.run(20_000);
  expect(edge.generation).toBe(generation);
  expect(edge.caddy.targetOf(host)).toBe("x~empty");
  expect(world.checks.found).toBeNull();
});
