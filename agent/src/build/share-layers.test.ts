import { expect, test } from "vitest";
import { baseOf } from "./share-layers.ts";

const debian = { name: "debian", layers: ["a"] };
const node = { name: "node", layers: ["a", "b"] };
const other = { name: "other", layers: ["c"] };
const empty = { name: "empty", layers: [] };

test.each([
  { layers: ["a", "b", "x"], candidates: [debian, node, other], expected: "node" },
  { layers: ["a", "x"], candidates: [debian, node, other], expected: "debian" },
  { layers: ["a", "b"], candidates: [node], expected: "node" },
  { layers: ["a"], candidates: [node], expected: undefined },
  { layers: ["x", "a", "b"], candidates: [debian, node], expected: undefined },
  { layers: ["x"], candidates: [empty], expected: undefined },
  { layers: [], candidates: [debian, empty], expected: undefined },
])("of $layers the base is $expected", ({ layers, candidates, expected }) => {
  expect(baseOf(layers, candidates)?.name).toBe(expected);
});
