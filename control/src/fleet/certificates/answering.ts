import type { Db } from "../../stores/db/pool.ts";
import { edgesInRotation } from "../routes/progress.ts";

/** How many challenges an edge is believed to answer at once; more are not asked for in the time that each takes. */
export const tokensMax = 1_000;

/**
 * Whether every edge that visitors may reach answers this challenge, as its router has seen for itself: a CA looks from
 * several places, and each may meet another edge. Never while there is no edge.
 */
export const areEdgesAnswering =
  (db: Db, edgeApplied: (edgeId: string) => { challenges?: string[] | undefined } | null) =>
  async (token: string): Promise<boolean> => {
    const edges = await edgesInRotation(db);
    return edges.length > 0 && edges.every((id) => edgeApplied(id)?.challenges?.includes(token) === true);
  };
