import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { keys, observationValue } from "../../../fleet/cluster/keys.ts";
import { haveEdgesLeft, type IsLeft } from "../../../fleet/routes/left.ts";
import { endRuns } from "../../../fleet/tasks/runs.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { WorkOutcome } from "../../../stores/work/queue.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import type { RetireRows, RetiringRow } from "./rows.ts";

export interface RetireDeps {
  clock: Clock;
  rows: RetireRows;
  etcd: Etcd;
  fleet: Fleet;
  /** How long requests that are under way may still take once no edge sends new ones. */
  drainMs: number;
}

/**
 * Work of kind `retire`: takes back the release attempts of a deployment whose way is over, and removes the
 * containers of one that serves no more. It waits until the published table names none of them, every edge in rotation
 * has that table, and usual requests have drained; what is open then has on its node the time that its manifest gives.
 */
export function retireWorker(deps: RetireDeps): WorkHandler {
  const { rows, drainMs } = deps;
  return async (item) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const runsEnded = await endRuns(deps, (run) => run.ownerId === deploymentId);
    // An edge or a node may be away for long, and thousands of these must not look all the time.
    const recheckMs = recheckAfterMs(item.ageMs);
    const ended: WorkOutcome = runsEnded ? { state: "done" } : { retryAfterMs: recheckMs, refund: true };
    const found = await rows.find(deploymentId);
    if (found === null) return ended;
    const { serves, builds, containers, hosts } = found;
    await rows.remove(builds);
    if (serves || containers.length === 0) return ended;
    const upstreams = await readUpstreams(deps, containers);
    // A container that is down for a moment has no address, and comes back where it was: the route is known by its deployment.
    const isLeft: IsLeft = (route) =>
      route?.proxy === undefined ||
      (route.deploymentId !== deploymentId && !route.proxy.upstreams.some((each) => upstreams.has(each)));
    if (!(await haveEdgesLeft({ ...deps, edges: rows.edges }, hosts, isLeft)))
      return { retryAfterMs: recheckMs, refund: true };
    const leftMs = upstreams.size === 0 ? 0 : drainMs - (await rows.drainedForMs(item.id));
    if (leftMs > 0) return { retryAfterMs: Math.min(leftMs, recheckMs), refund: true };
    const taskIds = containers.map(({ id }) => id);
    await rows.drain(deploymentId, taskIds, upstreams.size === 0 ? 0 : drainMs);
    return ended;
  };
}

/** Where containers are reached, by what etcd itself knows. */
async function readUpstreams(
  { etcd, fleet }: Pick<RetireDeps, "etcd" | "fleet">,
  containers: RetiringRow["containers"],
): Promise<Set<string>> {
  const found = await Promise.all(
    containers.map(async ({ id, node_id }) => {
      const nodeId = node_id ?? fleet.findPlacement(id)?.nodeId;
      const entry = nodeId === undefined ? null : await etcd.get(keys.observation(nodeId, id));
      return entry === null ? null : observationValue.parse(JSON.parse(entry.value)).upstream;
    }),
  );
  return new Set(found.filter((upstream) => upstream !== null));
}
