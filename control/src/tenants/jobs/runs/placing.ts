// @pure
import {
  type Decision,
  type Hints,
  type PlacementRequest,
  place,
  type Reservation,
  type SchedulableNode,
} from "../../../fleet/scheduler/placement.ts";

/** So many attempts a node begins at once: each makes a container, and a thousand of them are due in one minute. */
export const startsAtOnce = 4;

/** `turn`: there is room, but nodes that have it are at their bound of starts. */
export type Placing = Decision | { turn: true };

/**
 * Which node each attempt is offered to, in the order given: one that has its image, if it has room, and none with more than
 * `startsAtOnce` that have not begun.
 */
export function placeAttempts(
  {
    nodes,
    taken,
    starting,
    hints,
  }: {
    nodes: readonly SchedulableNode[];
    taken: readonly Reservation[];
    /** Attempts on nodes that have not begun. */
    starting: ReadonlyMap<string, number>;
    hints: Hints;
  },
  requests: readonly PlacementRequest[],
): Map<string, Placing> {
  const left = new Map(nodes.map(({ id }) => [id, startsAtOnce - (starting.get(id) ?? 0)]));
  const given: Reservation[] = [...taken];
  const placed = new Map<string, Placing>();
  let rest = requests;
  while (rest.length > 0) {
    const free = nodes.filter(({ id }) => (left.get(id) ?? 0) > 0);
    if (free.length === 0) break;
    const decisions = place(free, given, rest, { hints });
    // Each node takes the first of what it was given; what is too much is placed once more, without it.
    const again: PlacementRequest[] = [];
    for (const request of rest) {
      const decision = decisions.get(request.id);
      if (decision === undefined || "refused" in decision) continue;
      const room = left.get(decision.nodeId) ?? 0;
      if (room <= 0) again.push(request);
      else {
        left.set(decision.nodeId, room - 1);
        given.push({ ...request, nodeId: decision.nodeId });
        placed.set(request.id, decision);
      }
    }
    rest = again;
  }
  const others = requests.filter(({ id }) => !placed.has(id));
  const anywhere = place(nodes, given, others, { hints });
  for (const { id } of others) {
    const decision = anywhere.get(id) ?? { refused: {} };
    placed.set(id, "refused" in decision ? decision : { turn: true });
  }
  return placed;
}
