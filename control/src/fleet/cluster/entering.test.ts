import { expect, test } from "vitest";
import { edgesKnowEntrances } from "./entering.ts";

test.each([
  { edges: [], is: false },
  { edges: [true], is: true },
  { edges: [true, true], is: true },
  { edges: [true, false], is: false },
])("edges that know entrances: $edges", ({ edges, is }) => {
  expect(edgesKnowEntrances(edges.map((knowsEntrances) => ({ knowsEntrances })))).toBe(is);
});
