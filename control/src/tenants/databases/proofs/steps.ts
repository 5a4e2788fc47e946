// @pure
import type { RestoreProof } from "../../../stores/db/tables.ts";

/** What a node said of a copy that it restored. */
export interface ProofResult {
  coveredAt: string;
  tookMs: number;
  bytes: number;
  tables: readonly { schema: string; name: string; rows: number }[];
  isCut: boolean;
}

export interface ProofTaskFacts {
  taskId: string;
  /** False: it was asked to go. */
  wanted: boolean;
  state: "waiting" | "running" | "completed" | "failed";
  /** Why it failed; null: it did not, or does not say. */
  problem: string | null;
  /** Null before it is completed. */
  result: ProofResult | null;
}

/** Everything that decides what is next for a proof that a copy can be restored. */
export interface ProofFacts {
  verdict: RestoreProof["verdict"];
  ageMs: number;
  /** The node that keeps the copy; null: it has ended, or its node is gone. */
  nodeId: string | null;
  /** The branch's server takes sessions: it can be looked at. */
  isServing: boolean;
  /** The branch was looked at before. */
  hasSource: boolean;
  /** The copy has everything that there was then. */
  coversSource: boolean;
  /** Null before there was one. */
  task: ProofTaskFacts | null;
  /** How long ago the moment is that it was restored to; null before that is known. */
  restoredAgoMs: number | null;
}

export type ProofStep =
  /** Note what the branch has now. */
  | { do: "look" }
  | { do: "startTask"; nodeId: string }
  /** Note what the branch has by now, and compare. */
  | { do: "judge"; result: ProofResult }
  | { do: "fail"; reason: string }
  /** It came to nothing, and says nothing of the copy. */
  | { do: "drop"; why: string }
  | { do: "removeTask"; taskId: string }
  | { do: "wait"; for: string }
  | { do: "end" };

/** Within which a proof has to be over. */
export const proofMs = 12 * 3_600_000;
/** What was written at the moment that a copy is restored to is counted by the server within this time. */
export const settledMs = 90_000;

/** The next thing to do for a proof. Each step may be repeated, and what it writes is written only while there is no verdict. */
export function nextProofStep(facts: ProofFacts): ProofStep {
  const { verdict, ageMs, nodeId, isServing, hasSource, coversSource, task, restoredAgoMs } = facts;
  if (verdict !== "pending") return task?.wanted ? { do: "removeTask", taskId: task.taskId } : { do: "end" };
  if (task?.state === "failed") {
    return task.wanted
      ? { do: "fail", reason: task.problem ?? "Its node does not say why it could not be restored." }
      : { do: "drop", why: "its node was to be empty" };
  }
  if (nodeId === null) return { do: "drop", why: "the copy is not kept any more" };
  if (ageMs >= proofMs) return { do: "drop", why: "it took too long" };
  if (task === null) {
    if (!hasSource) return isServing ? { do: "look" } : { do: "wait", for: "the server to answer" };
    return coversSource ? { do: "startTask", nodeId } : { do: "wait", for: "the copy to have what there is" };
  }
  if (task.result === null) {
    return task.wanted && task.state !== "completed"
      ? { do: "wait", for: "the node to be done" }
      : { do: "drop", why: "nobody knows what its node has found" };
  }
  if (restoredAgoMs === null || restoredAgoMs < settledMs) return { do: "wait", for: "the server's own counters" };
  return isServing ? { do: "judge", result: task.result } : { do: "wait", for: "the server to answer" };
}
