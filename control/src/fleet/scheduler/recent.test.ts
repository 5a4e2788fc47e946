import { expect, test } from "vitest";
import { createRecent } from "./recent.ts";
import { failureKey } from "./score.ts";
import type { Placed } from "./steps.ts";
import { aTask } from "./testing.ts";

const at = (minutes: number) => new Date(minutes * 60_000);
const aPlaced = (placementId: string, change: Partial<Placed> = {}): Placed => ({
  ...aTask(placementId),
  placementId,
  nodeId: "n1",
  limitsGeneration: 0,
  modRevision: 1n,
  ...change,
});
const seen = (observed: "pulling" | "running" | "failed", minutes: number) => ({
  observed,
  changedAt: at(minutes).toISOString(),
});
const of = (placed: Placed[]) => new Map(placed.map((each) => [each.placementId, each]));
const none = new Map();

test("a node keeps the image of what ran there for an hour, and has none of what was never pulled", () => {
  const recent = createRecent();
  const placed = of([aPlaced("a"), aPlaced("b", { nodeId: "n2" }), aPlaced("c", { specHash: "other" })]);
  const observed = new Map([
    ["a", seen("running", 0)],
    ["b", seen("running", 0)],
    ["c", seen("pulling", 0)],
  ]);
  expect(recent.note(placed, observed, at(0)).images).toEqual(new Map([["h", new Set(["n1", "n2"])]]));
  const stillThere = of([aPlaced("b", { nodeId: "n2" })]);
  expect(recent.note(stillThere, observed, at(59)).images.get("h")).toEqual(new Set(["n1", "n2"]));
  expect(recent.note(stillThere, observed, at(61)).images.get("h")).toEqual(new Set(["n2"]));
  expect(recent.note(none, none, at(130)).images).toEqual(new Map());
});

test("failures count once each, for five minutes, also when what failed is gone", () => {
  const recent = createRecent();
  const failed = (ids: string[]) => ({
    placed: of(ids.map((id) => aPlaced(id))),
    observed: new Map(ids.map((id) => [id, seen("failed", 0)])),
  });
  const { placed, observed } = failed(["a", "b"]);
  recent.note(placed, observed, at(1));
  expect(recent.note(placed, observed, at(2)).failures).toEqual(new Map([[failureKey("n1", "p1"), 2]]));
  expect(recent.note(none, none, at(4)).failures.get(failureKey("n1", "p1"))).toBe(2);
  expect(recent.note(none, none, at(6)).failures).toEqual(new Map());
});

test("what failed long before is not taken for news by a new leader", () => {
  const observed = new Map([["a", seen("failed", 0)]]);
  expect(createRecent().note(of([aPlaced("a")]), observed, at(60)).failures).toEqual(new Map());
});
