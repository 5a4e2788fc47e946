// @pure
import { hasEnded, keyParts, type ObservationValue, prefix } from "../cluster/keys.ts";

type Seen = Pick<ObservationValue, "observed" | "limits">;

/** It takes the room that was set aside for it, with the limits that it was placed with, and nothing to say of them. */
const isAsPlaced = ({ observed, limits }: Seen): boolean =>
  !hasEnded(observed) && (limits === undefined || (limits.generation === 0 && limits.problem === null));

/**
 * Whether changed keys of placements and observations may lead to a decision of the scheduler. What it has placed itself it
 * knows, and a container that comes up as it was placed frees no room and asks for none: most changes are of these two kinds.
 * What is passed over is found by the next round, whatever that was for. Without keys it may be any change.
 */
export function wakesScheduler(
  changes: readonly { key: string }[] | undefined,
  observationOf: (nodeId: string, taskId: string) => Seen | null,
): boolean {
  if (changes === undefined) return true;
  return changes.some(({ key }) => {
    if (key.startsWith(prefix.placements)) return false;
    const [nodeId = "", taskId = ""] = keyParts(key, prefix.observations);
    const seen = observationOf(nodeId, taskId);
    return seen === null || !isAsPlaced(seen);
  });
}
