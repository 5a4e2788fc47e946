// @pure
import type { EdgeStateFacts } from "../../cluster/facts.ts";

/** An edge that sends its visitors away. */
export interface DrainingEdge {
  id: string;
  /** Of the drain. */
  generation: number;
  deadline: Date | null;
  /** Its lease is over: it says nothing any more. */
  isSilent: boolean;
  /** What it said last; null when it never does. */
  state: Pick<EdgeStateFacts, "generation" | "phase"> | null;
}

/**
 * Which drains of edges are over. Nothing waits for an edge that is out of rotation, so one that cannot say that its
 * visitors are gone, or does not in time, keeps nobody from removing it.
 */
export const edgeDrainsOver = (edges: readonly DrainingEdge[], now: Date): DrainingEdge[] =>
  edges.filter(({ generation, deadline, isSilent, state }) => {
    if (isSilent || state === null || (deadline !== null && now >= deadline)) return true;
    return state.phase === "drained" && state.generation === generation;
  });
