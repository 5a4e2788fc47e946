import type { Fleet } from "../cluster/fleet.ts";
import { isRunOver, keys, type RunValue } from "../cluster/keys.ts";
import type { Etcd } from "../etcd/index.ts";

/** Asks the node of an attempt to end it, or never to start it. Nothing happens when it is over, or asked already. */
export async function cancelRun(etcd: Etcd, fleet: Fleet, attemptId: string, now: Date): Promise<void> {
  const found = fleet.findRun(attemptId);
  if (found === null || found.run.cancel || isRunOver(found.run.state)) return;
  const key = keys.run(found.nodeId, attemptId);
  const run: RunValue = { ...found.run, cancel: true, changedAt: now.toISOString() };
  await etcd.txn({
    guards: [{ key, compare: "modRevision", value: found.modRevision }],
    ops: [{ put: { key, value: JSON.stringify(run) } }],
  });
}

/**
 * Takes attempts back whose outcome nobody waits for any more: what may still run is asked to end, and the record
 * of what is over goes. True once there is no record left. A record stays until the node has answered, since a
 * node that is away may still run the command.
 */
export async function endRuns(
  { etcd, fleet, now }: { etcd: Etcd; fleet: Fleet; now: () => Date },
  isUnwanted: (run: RunValue) => boolean,
): Promise<boolean> {
  const left = fleet.runs().filter(({ run }) => isUnwanted(run));
  for (const { nodeId, run, modRevision } of left) {
    const key = keys.run(nodeId, run.attemptId);
    if (!isRunOver(run.state)) await cancelRun(etcd, fleet, run.attemptId, now());
    // Whoever owns the node's stream has told the agent, and tells it again should it ask.
    else await etcd.txn({ guards: [{ key, compare: "modRevision", value: modRevision }], ops: [{ delete: { key } }] });
  }
  return left.length === 0;
}
