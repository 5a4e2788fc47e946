import { expect, test } from "vitest";
import { databaseNeeds } from "./database-needs.ts";
import { place } from "./placement.ts";
import { aNode, aTask } from "./testing.ts";

const ask = (pinnedTo: string | null, ...nodes: ReturnType<typeof aNode>[]) => {
  const needs = databaseNeeds({ sizeMb: 1_000, pinnedTo, nodeSelector: {} }, nodes);
  return place(nodes, [], [aTask("t1", { kind: "database", platform: null, pinnedTo, ...needs })]).get("t1");
};
const [small, fit, unknown] = [{ diskMb: 1_999 }, { diskMb: 2_000 }, { diskMb: 0 }];
const kept = { labels: { database: "yes" } };

test.each([
  { when: "a disk holds it twice", nodes: [aNode("n1", small), aNode("n2", fit)], goes: { nodeId: "n2" } },
  { when: "a disk is not known", nodes: [aNode("n1", small), aNode("n2", unknown)], goes: { nodeId: "n2" } },
  {
    when: "no disk holds it twice",
    nodes: [aNode("n1", small), aNode("n2", small)],
    goes: { refused: { "a disk smaller than it needs": 2 } },
  },
  {
    when: "its data is on a disk that has become too small",
    pinnedTo: "n1",
    nodes: [aNode("n1", small)],
    goes: { nodeId: "n1" },
  },
  {
    when: "a node is kept for databases",
    nodes: [aNode("n1", fit), aNode("n2", { ...fit, ...kept })],
    goes: { nodeId: "n2" },
  },
  {
    when: "the node that is kept for databases is too small",
    nodes: [aNode("n1", fit), aNode("n2", { ...small, ...kept })],
    goes: {
      refused: {
        "without the labels of the plan, which operators set": 1,
        "a disk smaller than it needs": 1,
      },
    },
  },
  {
    when: "its data was elsewhere before a node was kept for databases",
    pinnedTo: "n1",
    nodes: [aNode("n1", fit), aNode("n2", { ...fit, ...kept })],
    goes: { nodeId: "n1" },
  },
])("a database goes as told when $when", ({ pinnedTo = null, nodes, goes }) => {
  expect(ask(pinnedTo, ...nodes)).toMatchObject(goes);
});
