// @pure
import { firstProblem, type PlacementRequest } from "./filters.ts";
import type { NodeRoom, Room, SchedulableNode } from "./node-room.ts";

/**
 * How much is lost together where a copy is: 1, with the branch's own node; 2, with nothing but itself, as far as is known; 3,
 * the two are in zones that differ.
 */
export type CopyTier = 1 | 2 | 3;

export interface CopyPlace {
  nodeId: string;
  tier: CopyTier;
}

/** Where the data is that is copied, by id and, if somebody says, by zone. */
export type DataPlace = Pick<SchedulableNode, "id"> & Partial<Pick<SchedulableNode, "zone">>;

export function tierOf(at: DataPlace, data: DataPlace): CopyTier {
  if (at.id === data.id) return 1;
  const areKnown = at.zone && data.zone;
  return areKnown && at.zone !== data.zone ? 3 : 2;
}

/**
 * The node that a copy is best kept on: of the highest tier, of those where fewest copies are kept, and of those by id. Null: none
 * takes it.
 *
 * @param options.apart nodes that have a copy of this branch already
 */
export function placeCopy(
  room: Room,
  request: PlacementRequest,
  { data, apart }: { data: DataPlace; apart: ReadonlySet<string> },
): CopyPlace | null {
  const keepers = ({ counts }: NodeRoom): number => counts.keeper ?? 0;
  const [best] = room.nodes
    .filter((each) => !apart.has(each.node.id) && firstProblem(each, request) === null)
    .map((each) => ({ each, tier: tierOf(each.node, data) }))
    .sort((a, b) => b.tier - a.tier || keepers(a.each) - keepers(b.each) || (a.each.node.id < b.each.node.id ? -1 : 1));
  return best === undefined ? null : { nodeId: best.each.node.id, tier: best.tier };
}
