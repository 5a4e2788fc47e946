import { nodeActions } from "@svc/proto";
import { expect, test } from "vitest";
import { nodeChange } from "./rules.ts";

const now = new Date("2030-01-01T12:00:00Z");
const node = { role: "node", incarnation: 3, drain_generation: 7, reason: "disk swap" } as const;
const noDrain = {
  ...{ drain: "none", drain_started_at: null, drain_deadline: null, drain_moves_databases: false },
  drain_generation: 8,
};

test.each([
  {
    action: "cordon",
    words: { reason: "noise" },
    set: { schedulable: false, reason: "noise" },
    events: [["cordoned", "noise"]],
  },
  { action: "cordon", words: {}, set: { schedulable: false, reason: null }, events: [["cordoned", null]] },
  { action: "uncordon", words: {}, set: { schedulable: true, reason: null }, events: [["uncordoned", null]] },
  {
    action: "drain",
    words: { deadlineSeconds: 60, moveDatabases: true },
    set: {
      drain_moves_databases: true,
      schedulable: false,
      drain: "draining",
      drain_generation: 8,
      drain_started_at: now,
      drain_deadline: new Date("2030-01-01T12:01:00Z"),
      reason: null,
    },
    events: [["drain-started", null]],
  },
  // It stays cordoned, and what was said of it stays true.
  {
    action: "cancel-drain",
    words: {},
    set: { ...noDrain, reason: "disk swap" },
    events: [["drain-canceled", null]],
  },
  {
    action: "force-fence",
    words: { reason: "on fire" },
    set: { ...noDrain, lifecycle: "fenced", incarnation: 4, schedulable: false, reason: "on fire" },
    events: [["fenced", "on fire"]],
  },
  {
    action: "remove",
    words: {},
    set: { ...noDrain, lifecycle: "removed", schedulable: false, reason: "disk swap" },
    events: [["removed", null]],
  },
] as const)("$action with $words", ({ action, words, set, events }) => {
  const change = nodeChange(action, node, words, now);
  expect(change.set).toEqual(set);
  expect(change.events.map(({ kind, detail }) => [kind, detail])).toEqual(events);
});

test("a drain takes an hour unless told otherwise, and of an edge no time at all", () => {
  expect(nodeChange("drain", node, {}, now).set.drain_deadline).toEqual(new Date("2030-01-01T13:00:00Z"));
  const { set, events } = nodeChange("drain", { ...node, role: "edge" }, {}, now);
  expect(set).toMatchObject({ drain: "drained", schedulable: false, drain_deadline: null });
  expect(events.map(({ kind }) => kind)).toEqual(["drain-started", "drained"]);
});

test("whatever begins or ends a drain makes what was decided for the last one void", () => {
  const raises = nodeActions.filter((action) => nodeChange(action, node, {}, now).set.drain_generation === 8);
  expect(raises).toEqual(["drain", "cancel-drain", "force-fence", "remove"]);
});
