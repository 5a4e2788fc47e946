// @pure
import type { Task } from "../../stores/db/tables.ts";
import type { ObservationValue } from "../cluster/keys.ts";

/** Runs, answers its health path, and edges can reach it. */
export const isServing = ({ observation }: Pick<TaskFacts, "observation">): boolean =>
  observation?.observed === "running" && observation.health === "healthy" && observation.upstream !== null;

/** A row of `task`, as far as anybody waits for its container. */
export type TaskRow = Pick<Task, "id" | "replica" | "created_at" | "desired" | "node_id" | "refused">;

/** The same with what is known of it. */
export interface TaskFacts {
  id: string;
  /** Which of its deployment's containers it is, from 0. */
  slot: number;
  createdAt: Date;
  desired: "running" | "stopped" | "removed";
  nodeId: string | null;
  /** Null once placed. */
  refused: Readonly<Record<string, number>> | null;
  /** Since when the node has no stream; null while it has one, or is not known. */
  nodeLostAt: Date | null;
  observation: ObservationValue | null;
}
