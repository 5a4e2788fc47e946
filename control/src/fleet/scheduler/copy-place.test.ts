import { expect, test } from "vitest";
import { placeCopy } from "./copy-place.ts";
import type { PlacementRequest } from "./filters.ts";
import { createRoom } from "./node-room.ts";
import { aNode, aTask } from "./testing.ts";

const request: PlacementRequest = { ...aTask("c"), kind: "keeper" };
const data = { id: "n1", zone: "a" };

test.each<{ when: string; nodes: Parameters<typeof aNode>[]; apart?: string[]; is: object | null }>([
  { when: "there is no other node", nodes: [["n1", { zone: "a" }]], is: { nodeId: "n1", tier: 1 } },
  {
    when: "there is another node",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", { zone: "a" }],
    ],
    is: { nodeId: "n2", tier: 2 },
  },
  {
    when: "another zone has one",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", { zone: "a" }],
      ["n3", { zone: "b" }],
    ],
    is: { nodeId: "n3", tier: 3 },
  },
  {
    when: "nobody knows its zone",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", { zone: "" }],
    ],
    is: { nodeId: "n2", tier: 2 },
  },
  {
    when: "the better one is full",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", { zone: "a" }],
      ["n3", { zone: "b", diskFull: true }],
    ],
    is: { nodeId: "n2", tier: 2 },
  },
  {
    when: "the better one is to be empty",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", { draining: true }],
    ],
    is: { nodeId: "n1", tier: 1 },
  },
  {
    when: "the better one has a copy",
    nodes: [
      ["n1", { zone: "a" }],
      ["n2", {}],
    ],
    apart: ["n2"],
    is: { nodeId: "n1", tier: 1 },
  },
  { when: "none takes it", nodes: [["n1", { diskFull: true }]], is: null },
])("when $when", ({ nodes, apart = [], is }) => {
  const room = createRoom(
    nodes.map((each) => aNode(...each)),
    [],
  );
  expect(placeCopy(room, request, { data, apart: new Set(apart) })).toEqual(is);
});

test("where fewest copies are kept comes first", () => {
  const kept = {
    nodeId: "n2",
    projectId: "p",
    ownerId: "o",
    kind: "keeper" as const,
    memoryMb: 1,
    cpuMillicores: 1,
    pidsLimit: 1,
  };
  const room = createRoom([aNode("n1"), aNode("n2"), aNode("n3")], [kept]);
  expect(placeCopy(room, request, { data, apart: new Set() })).toEqual({ nodeId: "n3", tier: 2 });
});
