import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../../log.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { Fleet } from "../../cluster/fleet.ts";
import { keys, type RunValue } from "../../cluster/keys.ts";
import { kindOfRun } from "../../tasks/run-kinds/index.ts";
import { settleRuns } from "../../tasks/runs.ts";
import { runAfterFence } from "./steps.ts";
import type { LostRows } from "./store.ts";

export interface FenceDeps {
  lost: LostRows;
  etcd: Etcd;
  fleet: Fleet;
  log: Log;
  clock: Clock;
}

/**
 * One round over all machines that were fenced or removed: takes away what they left in etcd, and settles what only they
 * could have answered. The sessions go first, so that a stream that had not heard yet writes nothing any more. What they
 * ran is replaced by whoever keeps replicas, and forgotten by the scheduler. Safe to repeat and to lose at any point.
 */
export async function clearGone(deps: FenceDeps): Promise<void> {
  const { lost, etcd, fleet, log, clock } = deps;
  const gone = new Set(await lost.gone());
  for (const id of gone) {
    const left = [
      ...(fleet.nodeSession(id) === null ? [] : [keys.nodeSession(id)]),
      ...(fleet.edgeSession(id) === null ? [] : [keys.edgeSession(id)]),
      ...(fleet.edgeApplied(id) === null ? [] : [keys.edgeApplied(id)]),
    ];
    for (const key of left) await etcd.txn({ guards: [], ops: [{ delete: { key } }] });
    if (left.length > 0) log.info({ nodeId: id, keys: left.length }, "what a lost machine left is cleared");
  }
  const settle = (run: RunValue) => runAfterFence(run, kindOfRun(run.kind), clock.now());
  // A look at the view, which costs nothing; etcd itself is asked only when there is something.
  if (fleet.runs().some(({ nodeId, run }) => gone.has(nodeId) && settle(run) !== null)) {
    const settled = await settleRuns(etcd, gone, settle);
    for (const { attemptId, state } of settled) log.info({ attemptId, to: state }, "run settled after a fence");
  }
  await forgetStopped(deps, gone);
}

/** Containers that were only to stop have nobody left who would say that they have. */
async function forgetStopped({ lost, fleet }: FenceDeps, gone: ReadonlySet<string>): Promise<void> {
  const ids = fleet
    .placements()
    .filter(({ nodeId, placement }) => gone.has(nodeId) && placement.desired === "stopped")
    .map(({ placement }) => placement.placementId);
  if (ids.length > 0) await lost.forgetStopped(ids);
}
