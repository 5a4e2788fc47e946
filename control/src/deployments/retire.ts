import type { Fleet } from "../cluster/fleet.ts";
import type { Db } from "../db/pool.ts";
import type { Etcd } from "../etcd/index.ts";
import type { WorkOutcome } from "../work/queue.ts";
import { recheckAfterMs } from "../work/recheck.ts";
import type { WorkHandler } from "../work/worker.ts";
import { edgeProgress } from "./edges.ts";
import { listNames } from "./hosts.ts";
import { endRuns } from "./runs.ts";
import { findChannelState, findDeployment, listTasks, removeTasks } from "./store.ts";

export interface RetireDeps {
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  /** How long requests that are under way may still take once no edge sends new ones. */
  drainMs: number;
  now: () => Date;
}

/**
 * Work of kind `retire`: takes back the release attempts of a deployment whose way is over, and removes the
 * containers of one that serves no more. It waits until the published table names none of them, every edge in rotation
 * has that table, and requests have drained.
 */
export function retireWorker(deps: RetireDeps): WorkHandler {
  const { db, fleet, drainMs, now } = deps;
  return async (item) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const found = await findDeployment(db, deploymentId);
    const runsEnded = await endRuns(deps, (run) => run.deploymentId === deploymentId);
    // An edge or a node may be away for long, and thousands of these must not look all the time.
    const recheckMs = recheckAfterMs(item.ageMs);
    const ended: WorkOutcome = runsEnded ? { state: "done" } : { retryAfterMs: recheckMs, free: true };
    if (found === null) return ended;
    const state = await findChannelState(db, found.deployment);
    const serves = state?.deployment_id === deploymentId && !state.stopped;
    const tasks = (await listTasks(db, deploymentId)).filter((task) => task.desired !== "removed");
    // Builds serve nobody.
    await removeTasks(
      db,
      tasks.filter((task) => task.kind === "build").map((task) => task.id),
    );
    const serving = tasks.filter((task) => task.kind === "serve");
    if (serves || serving.length === 0) return ended;
    const upstreams = new Set(
      serving.flatMap(({ id }) => {
        const placed = fleet.findPlacement(id);
        return (placed && fleet.observation(placed.nodeId, id)?.upstream) ?? [];
      }),
    );
    const hosts = await listNames(db, found.deployment);
    const named = hosts.some((host) => fleet.route(host)?.proxy?.upstreams.some((upstream) => upstreams.has(upstream)));
    const edges = await edgeProgress(db, fleet, hosts);
    if (named || edges.current < edges.inRotation) return { retryAfterMs: recheckMs, free: true };
    const drained = await drainedSince(db, item.id, now);
    const leftMs = upstreams.size === 0 ? 0 : drainMs - (now().getTime() - drained.getTime());
    if (leftMs > 0) return { retryAfterMs: Math.min(leftMs, recheckMs), free: true };
    await removeTasks(
      db,
      serving.map((task) => task.id),
    );
    return ended;
  };
}

/** When the item first saw that no edge sends requests any more; kept with the item, so that a restart goes on counting. */
export async function drainedSince(db: Db, itemId: number, now: () => Date): Promise<Date> {
  const row = await db.selectFrom("work_item").select("payload").where("id", "=", itemId).executeTakeFirstOrThrow();
  const payload = row.payload as { deploymentId: string; drainedAt?: string };
  if (payload.drainedAt !== undefined) return new Date(payload.drainedAt);
  const at = now();
  await db
    .updateTable("work_item")
    .set({ payload: JSON.stringify({ ...payload, drainedAt: at.toISOString() }) })
    .where("id", "=", itemId)
    .execute();
  return at;
}
