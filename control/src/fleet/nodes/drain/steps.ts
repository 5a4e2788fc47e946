// @pure
import type { TaskKind } from "@svc/proto/kinds";
import { rulesOf } from "../../tasks/kinds/index.ts";
/** A machine that is being emptied, or was, with what it still has. */
export interface DrainingNode {
  id: string;
  state: "draining" | "drained" | "deadline";
  /** Of the drain: what was decided for an earlier one must not be done. */
  generation: number;
  deadline: Date | null;
  /** What is placed there and not over. `drains`: it was replaced, and is to end once nothing is open there any more. */
  held: readonly { taskId: string; ownerId: string; kind: TaskKind; drains: boolean }[];
  /** Attempts at work that must not run twice which are not over. `claimed`: it may have started. */
  runs: readonly { attemptId: string; ownerId: string; claimed: boolean; isAskedToEnd: boolean }[];
}

export type DrainStep = { nodeId: string; generation: number } & (
  | { do: "finish" }
  /** Something came to it after all, as from a leader that had not heard of the drain. */
  | { do: "reopen" }
  | { do: "expire" }
  /** So that it begins anew on another node. */
  | { do: "redo"; taskId: string; ownerId: string }
  /** Has a replaced container end, whatever is open there. */
  | { do: "endDrain"; taskId: string }
  /** Asks the node to end it, or never to start it. */
  | { do: "endRun"; attemptId: string; ownerId: string; claimed: boolean }
);

/**
 * What comes next for machines that are to be empty. Containers of sites are moved by whoever keeps replicas; here is
 * what remains: commands that were not started are taken back at once; those that run, builds, and what is open on
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
  for (const { kind, taskId, ownerId, drains } of node.held) {
    if (isOver && rulesOf(kind).leaves === "redone") steps.push({ ...of, do: "redo", taskId, ownerId });
    if (isOver && drains) steps.push({ ...of, do: "endDrain", taskId });
  }
  for (const { attemptId, ownerId, claimed, isAskedToEnd } of node.runs) {
    if (!isAskedToEnd && (isOver || !claimed)) steps.push({ ...of, do: "endRun", attemptId, ownerId, claimed });
  }
  return steps;
}
