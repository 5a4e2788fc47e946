import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { edgesFollowing } from "../../../fleet/routes/progress.ts";
import type { ClaimedWork } from "../../../stores/work/queue.ts";
import { taskFacts } from "../facts.ts";
import type { LifecyclePayload, LifecycleRow, LifecycleRows } from "./rows.ts";
import type { StartFacts, StopFacts } from "./steps.ts";

export interface FoundLifecycle {
  of: LifecycleRow;
  facts: StopFacts | StartFacts;
}

/** Everything that decides the next step of a stop or a start, read afresh; null when there is nothing that it could be about. */
export async function readLifecycleFacts(
  { rows, fleet }: { rows: LifecycleRows; fleet: Fleet },
  item: Pick<ClaimedWork, "id" | "payload">,
): Promise<FoundLifecycle | null> {
  const { action } = item.payload as LifecyclePayload;
  // Waits are counted from times that the database gave, and this replica's clock may differ from its.
  const ownNow = fleet.now();
  const of = await rows.find(item);
  if (of === null) return null;
  const { now, askedAt, status, projectGone, channel } = of;
  const aheadMs = ownNow.getTime() - now.getTime();
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  const route = routeFacts(fleet, of, action);
  const facts = {
    ...{ now, lookingSince: shared(fleet.lookingSince), askedAt, status, projectGone, channel, route },
  };
  if (action === "stop") return { of, facts: { ...facts, action, isCovered: of.isCovered } };
  const { suspended, error, retiring, app } = of;
  return {
    of,
    facts: { ...facts, action, suspended, error, retiring, app: app && appFacts(fleet, app, { askedAt, shared }) },
  };
}

/** Whether visitors get the page, of a stop, or the site. */
function routeFacts(
  fleet: Fleet,
  { deploymentId, hosts, edges }: LifecycleRow,
  action: LifecyclePayload["action"],
): StopFacts["route"] {
  const isPublished = (host: string) => {
    const entry = fleet.route(host);
    const page = entry?.page?.page;
    if (action === "stop") return page === "PAGE_STOPPED" || page === "PAGE_SUSPENDED";
    return entry?.deploymentId === deploymentId && page === undefined;
  };
  return {
    published: hosts.every(isPublished),
    edgesCurrent: edgesFollowing(fleet, edges, hosts),
    edgesInRotation: edges.length,
  };
}

/** `shared` makes a time of the fleet's one of the database's. */
const appFacts = (
  fleet: Fleet,
  { replicas, healthTimeoutSeconds, tasks }: NonNullable<LifecycleRow["app"]>,
  { askedAt, shared }: { askedAt: Date; shared: (at: Date) => Date },
): StartFacts["app"] => ({
  ...{ replicas, healthTimeoutSeconds },
  attempts: tasks.filter(({ created_at }) => created_at >= askedAt).length,
  containers: tasks
    .filter(({ desired }) => desired !== "removed")
    .map((task) => taskFacts(task, fleet))
    .map((each) => ({ ...each, nodeLostAt: each.nodeLostAt && shared(each.nodeLostAt) })),
});
