import type { ReplicaRows } from "./rows.ts";
import type { Site } from "./steps.ts";

/** Of one round; the next one goes on. */
const mostAtOnce = 1_000;

/** Keeps of containers that serve for the first time that they did. What somebody else holds is left to the next round. */
export async function noteServed(
  rows: Pick<ReplicaRows, "noteServed">,
  epoch: bigint,
  sites: readonly Site[],
): Promise<void> {
  const ids = sites
    .flatMap(({ running }) => running)
    .filter(({ serving, served }) => serving && !served)
    .slice(0, mostAtOnce)
    .map(({ taskId }) => taskId);
  if (ids.length > 0) await rows.noteServed(epoch, ids);
}
