import { expect, test } from "vitest";
import { mayEnter, placeOf } from "./place.ts";

const row = { drain: "none", drain_generation: 2, schedulable: true, entering: false } as const;

test.each([
  { what: "one in rotation", row: {}, place: { leave: false, inRotation: true } },
  { what: "a new one", row: { entering: true }, place: { leave: false, inRotation: false } },
  { what: "a cordoned one", row: { schedulable: false }, place: { leave: false, inRotation: false } },
  {
    what: "one that drains",
    row: { schedulable: false, drain: "draining" as const },
    place: { leave: true, inRotation: false },
  },
  {
    what: "a drained one",
    row: { schedulable: false, drain: "drained" as const },
    place: { leave: true, inRotation: false },
  },
])("$what is told $place", ({ row: more, place }) => {
  expect(placeOf({ ...row, ...more })).toEqual({ generation: 2, ...place });
});

test.each([
  { entering: true, state: null, may: false },
  { entering: true, state: { lacks: "the route table" }, may: false },
  { entering: true, state: { lacks: null }, may: true },
  { entering: false, state: { lacks: null }, may: false },
])("an edge that is entering: $entering and said $state may come in: $may", ({ entering, state, may }) => {
  expect(mayEnter({ entering }, state)).toBe(may);
});
