import { describe, expect, test } from "vitest";
import { type EdgeMutant, edgeLife } from "./edge-life.ts";
import { explore } from "./explore.ts";

describe("an edge that comes in, is cordoned and drained, in every order of events", () => {
  test("is sent visitors only while deployments wait for it, leaves in order, and stays nowhere on the way", () => {
    const { violation, states } = explore(edgeLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: EdgeMutant[] = [
    "tells before it counts in",
    "counts in whoever connects",
    "is well without a word",
    "keeps no word",
    "says what is not on disk yet",
    "closes at once",
    "goes on with the drain before",
    "ends a drain by what was said of another",
    "takes a new stream for an edge that never says anything",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(edgeLife(bug)).violation).not.toBeNull();
  });
});
