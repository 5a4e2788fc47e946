import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { isRunOver, keyParts, keys, prefix, type RunValue, runValue } from "../cluster/keys.ts";
import type { SeenRun } from "./attempts.ts";
import { listWaiting } from "./owners/index.ts";
import { type RunOwner, readRecords } from "./run-records.ts";

/**
 * An attempt that was offered to a node; null when there is no record of it. The view may be behind, and what is not
 * in it may run all the same: so absence is asked of etcd.
 */
export async function findRun(
  { etcd, fleet }: { etcd: Etcd; fleet: Fleet },
  nodeId: string,
  attemptId: string,
): Promise<SeenRun | null> {
  const seen = fleet.findRun(attemptId);
  if (seen !== null) return seen;
  const entry = await etcd.get(keys.run(nodeId, attemptId));
  return entry && { nodeId, run: runValue.parse(JSON.parse(entry.value)), modRevision: entry.modRevision };
}

/** Asks the node of an attempt to end it, or never to start it. Nothing happens when it is over, or asked already. */
export async function cancelRun(etcd: Etcd, nodeId: string, attemptId: string, now: Date): Promise<void> {
  const key = keys.run(nodeId, attemptId);
  const entry = await etcd.get(key);
  if (entry === null) return;
  await cancel(etcd, { key, modRevision: entry.modRevision, run: runValue.parse(JSON.parse(entry.value)) }, now);
}

async function cancel(
  etcd: Etcd,
  { key, run, modRevision }: { key: string; run: RunValue; modRevision: bigint },
  now: Date,
): Promise<void> {
  if (run.cancel || isRunOver(run.state)) return;
  const next: RunValue = { ...run, cancel: true, changedAt: now.toISOString() };
  await etcd.txn({
    guards: [{ key, compare: "modRevision", value: modRevision }],
    ops: [{ put: { key, value: JSON.stringify(next) } }],
  });
}

/**
 * Takes attempts back whose outcome nobody waits for any more: what may still run is asked to end, and the record
 * of what is over goes. True once there is no record left. A record stays until the node has answered, since a
 * node that is away may still run the command; and one that only a newer version knows until that has seen to it.
 */
export async function endRuns(
  { clock, etcd }: { clock: Clock; etcd: Etcd },
  isUnwanted: (run: RunOwner) => boolean,
): Promise<boolean> {
  // Not from the view: what it does not show yet would be taken for ended.
  const { known, unknown } = readRecords((await etcd.range(prefix.runs)).entries);
  const left = known.filter(({ run }) => isUnwanted(run));
  for (const { key, modRevision, run } of left) {
    if (!isRunOver(run.state)) await cancel(etcd, { key, modRevision, run }, clock.now());
    // Whoever owns the node's stream has told the agent, and tells it again should it ask.
    else await etcd.txn({ guards: [{ key, compare: "modRevision", value: modRevision }], ops: [{ delete: { key } }] });
  }
  return left.length === 0 && !unknown.some((owner) => owner !== null && isUnwanted(owner));
}

/**
 * Brings attempts on these nodes to what `settle` says; null leaves one as it is. For nodes that will not answer any
 * more. Each write is guarded by what was read, so an answer that came meanwhile counts. Returns what was written.
 */
export async function settleRuns(
  etcd: Etcd,
  nodeIds: ReadonlySet<string>,
  settle: (run: RunValue) => RunValue | null,
): Promise<RunValue[]> {
  const written: RunValue[] = [];
  const { known } = readRecords((await etcd.range(prefix.runs)).entries);
  for (const { key, run, modRevision } of known) {
    if (!nodeIds.has(keyParts(key, prefix.runs)[0] ?? "")) continue;
    const next = settle(run);
    if (next === null) continue;
    const { succeeded } = await etcd.txn({
      guards: [{ key, compare: "modRevision", value: modRevision }],
      ops: [{ put: { key, value: JSON.stringify(next) } }],
    });
    if (succeeded) written.push(next);
  }
  return written;
}

/**
 * Ends what is left of attempts whose owner is over or gone: a worker that stalled may have written an offer after
 * everybody else had cleared up. Returns how many records there are that only a newer version knows, and which stay.
 */
export async function sweepRuns(deps: { clock: Clock; db: Db; etcd: Etcd; log: Log }): Promise<number> {
  // Runs first: an owner that waits after that waited before, and its run is left alone.
  const { known, unknown } = readRecords((await deps.etcd.range(prefix.runs)).entries);
  if (unknown.length > 0)
    deps.log.warn({ count: unknown.length }, "runs of a kind that this version does not know stay");
  if (known.length === 0) return unknown.length;
  const runs = known.map(({ run }) => run);
  const waiting = await listWaiting(deps.db, runs);
  const unwanted = new Set(runs.map(({ ownerId }) => ownerId).filter((ownerId) => !waiting.has(ownerId)));
  await endRuns(deps, ({ ownerId }) => unwanted.has(ownerId));
  return unknown.length;
}
