// @pure
import type { OwnerKind, RunKind } from "@svc/proto/kinds";
import type { KindRules } from "../../tasks/kinds/kind.ts";

/** A machine that is being emptied, or was, with what it still has. */
export interface DrainingNode {
  id: string;
  state: "draining" | "drained" | "deadline";
  /** Of the drain: what was decided for an earlier one must not be done. */
  generation: number;
  deadline: Date | null;
  /** What is placed there and not over. `drains`: it was replaced, and is to end once nothing is open there any more. */
  held: readonly (Owned & { taskId: string; leaves: KindRules["leaves"]; drains: boolean })[];
  /** Attempts at work that must not run twice which are not over. `claimed`: it may have started. */
  runs: readonly (Owned & { attemptId: string; kind: RunKind; claimed: boolean; isAskedToEnd: boolean })[];
}

interface Owned {
  ownerKind: OwnerKind;
  ownerId: string;
}

export type DrainStep = { nodeId: string; generation: number } & (
  | { do: "finish" }
  /** Something came to it after all, as from a leader that had not heard of the drain. */
  | { do: "reopen" }
  | { do: "expire" }
  /** So that it begins anew on another node. */
  | ({ do: "redo"; taskId: string } & Owned)
  /** Has a replaced container end, whatever is open there. */
  | { do: "endDrain"; taskId: string }
  /** Asks the node to end it, or never to start it. */
  | ({ do: "endRun"; attemptId: string; kind: RunKind; claimed: boolean } & Owned)
);

/**
 * What comes next for machines that are to be empty. Containers of sites are moved by whoever keeps replicas, and what
 * stays until somebody moves it keeps the machine from being drained, also past the deadline. Here is what remains: commands that were not started are taken back at once; those that run, builds, and what is open on
 * replaced containers may go on until the deadline; and a machine that holds nothing is drained, before it or after it.
 */
export const drainSteps = (nodes: readonly DrainingNode[], now: Date): DrainStep[] =>
  nodes.flatMap((node) => stepsOf(node, now));

function stepsOf(node: DrainingNode, now: Date): DrainStep[] {
  const of = { nodeId: node.id, generation: node.generation };
  const isEmpty = node.held.length === 0 && node.runs.length === 0;
  if (node.state === "drained") return isEmpty ? [] : [{ ...of, do: "reopen" }];
  if (isEmpty) return [{ ...of, do: "finish" }];
  const isOver = node.deadline !== null && now >= node.deadline;
  const steps: DrainStep[] = isOver && node.state === "draining" ? [{ ...of, do: "expire" }] : [];
  for (const { taskId, ownerKind, ownerId, leaves, drains } of node.held) {
    if (isOver && leaves === "redone") steps.push({ ...of, do: "redo", taskId, ownerKind, ownerId });
    if (isOver && drains) steps.push({ ...of, do: "endDrain", taskId });
  }
  for (const { isAskedToEnd, ...run } of node.runs) {
    if (!isAskedToEnd && (isOver || !run.claimed)) steps.push({ ...of, do: "endRun", ...run });
  }
  return steps;
}
