import { expect, test } from "vitest";
import { type DrainingEdge, edgeDrainsOver } from "./edge-steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const edge: DrainingEdge = {
  ...{ id: "e1", generation: 4, deadline: new Date("2030-01-01T13:00:00Z"), isSilent: false },
  state: { generation: 4, phase: "leaving" },
};

test.each<{ what: string; edge: Partial<DrainingEdge>; over: boolean }>([
  { what: "one that waits for its visitors", edge: {}, over: false },
  { what: "one that closes their connections", edge: { state: { generation: 4, phase: "closing" } }, over: false },
  { what: "one that is done", edge: { state: { generation: 4, phase: "drained" } }, over: true },
  {
    what: "one that was done with an earlier drain",
    edge: { state: { generation: 2, phase: "drained" } },
    over: false,
  },
  { what: "one that has not heard of the drain", edge: { state: { generation: 3, phase: "serving" } }, over: false },
  { what: "one that is gone", edge: { isSilent: true }, over: true },
  { what: "one whose router of now does not say how far it is", edge: { state: null }, over: true },
  { what: "one that takes too long", edge: { deadline: now }, over: true },
])("the drain of $what is over: $over", ({ edge: more, over }) => {
  expect(edgeDrainsOver([{ ...edge, ...more }], now)).toHaveLength(over ? 1 : 0);
});
