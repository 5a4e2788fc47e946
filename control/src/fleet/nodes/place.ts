// @pure
import type { Node } from "../../stores/db/tables.ts";
import type { EdgeStateValue } from "../cluster/keys.ts";

/** Whether visitors are to come to an edge, as its row says; `Drain` of svc/edge/v1/edge.proto. */
export interface EdgePlace {
  generation: number;
  leave: boolean;
  inRotation: boolean;
}

export const placeOf = (row: Pick<Node, "drain" | "drain_generation" | "schedulable" | "entering">): EdgePlace => ({
  generation: row.drain_generation,
  leave: row.drain !== "none",
  inRotation: row.schedulable && !row.entering && row.drain === "none",
});

/** Whether an edge that is not in yet is to be counted in: it said that it lacks nothing, knowing what it is to have. */
export const mayEnter = (row: Pick<Node, "entering">, state: Pick<EdgeStateValue, "lacks"> | null): boolean =>
  row.entering && state !== null && state.lacks === null;
