import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { edgesFollowing } from "../../fleet/routes/progress.ts";
import type { TaskFacts, TaskRow } from "../../fleet/tasks/deployment-status.ts";
import { findRun } from "../../fleet/tasks/runs.ts";
import type { Task } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { placeRelease } from "./place-release.ts";
import type { DeployRow, DeployRows } from "./rows.ts";
import type { DeployFacts } from "./steps.ts";

export interface DeploymentFacts<Found extends DeployRow> {
  facts: DeployFacts;
  of: Found;
  /** Where its newest attempt is known to be offered; null before. */
  releaseNodeId: string | null;
  /** `facts` with what the fleet says now; what is in Postgres is as it was read, and so is the time. */
  factsNow: () => DeployFacts;
}

/** Everything that decides a deployment's next step, read afresh; null when it is gone. `ownNow`: by the clock of the fleet's view. */
export async function readDeployFacts<Found extends DeployRow>(
  { rows, etcd, fleet }: { rows: DeployRows<Found>; etcd: Etcd; fleet: Fleet },
  id: string,
  ownNow: Date,
): Promise<DeploymentFacts<Found> | null> {
  // Waits are counted from times that the database gave, and replicas' clocks may differ from its.
  const of = await rows.find(id);
  if (of === null) return null;
  const { attempt, tasks, hosts, edges, release: known, activatedAt } = of;
  const aheadMs = ownNow.getTime() - of.now.getTime();
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  const wanted = tasks.filter((task) => task.desired !== "removed");
  const ofKind = (kind: Task["kind"]) =>
    wanted
      .filter((task) => task.kind === kind)
      .map((task) => taskFacts(task, fleet))
      .map((facts) => ({ ...facts, nodeLostAt: facts.nodeLostAt && shared(facts.nodeLostAt) }));
  const attempts = (kind: Task["kind"]) => tasks.filter((task) => task.kind === kind).length;
  const routeOf = (serve: readonly TaskFacts[]) => {
    const upstreams = new Set(
      serve.map((task) => (task.nodeId && fleet.observation(task.nodeId, task.id)?.upstream) ?? ""),
    );
    const isPublished = (host: string) => {
      const entry = fleet.route(host);
      if (entry?.deploymentId !== id || entry.page) return false;
      return entry.proxy ? entry.proxy.upstreams.some((each) => upstreams.has(each)) : entry.static !== undefined;
    };
    return {
      published: hosts.length > 0 && hosts.every(isPublished),
      edgesCurrent: edgesFollowing(fleet, edges, hosts),
      edgesInRotation: edges.length,
    };
  };
  const release = attempt === null ? null : await findRun({ etcd, fleet }, attempt.node_id, attempt.id);
  const looksForNode =
    of.status === "deploying" &&
    known.status === "pending" &&
    (attempt === null || release?.run.state === "refused" || release?.run.state === "not_started");
  const decision = looksForNode ? await placeRelease({ rows, fleet }, of) : null;
  const refused = decision !== null && "refused" in decision ? decision.refused : null;
  const releaseLostAt = release === null ? null : fleet.nodeLostAt(release.nodeId);
  const fleetFacts = () => {
    const serve = ofKind("serve");
    return { build: ofKind("build").at(-1) ?? null, serve, route: routeOf(serve) };
  };
  const facts: DeployFacts = {
    ...{ now: of.now, id, type: of.type, status: of.status, statusSince: of.statusSince },
    ...{ cancelRequested: of.cancelRequested, held: of.held, projectGone: of.projectGone, suspended: of.suspended },
    ...{ overtaken: of.overtaken, artifact: of.artifact, healthTimeoutSeconds: of.healthTimeoutSeconds },
    ...{ replicas: of.replicas, replacesContainers: of.replacesContainers },
    lookingSince: shared(fleet.lookingSince),
    buildAttempts: attempts("build"),
    release: {
      ...known,
      attempt: attempt?.number ?? 0,
      run: release?.run ?? null,
      nodeLostAt: releaseLostAt && shared(releaseLostAt),
      refused,
    },
    serveAttempts: attempts("serve"),
    draining: refused !== null && (await rows.isDraining(of)),
    active: activatedAt !== null,
    activatedAt,
    ...fleetFacts(),
  };
  return { of, releaseNodeId: release?.nodeId ?? null, factsNow: () => ({ ...facts, ...fleetFacts() }), facts };
}

/** A row of `task` with what its node says of it. */
export function taskFacts(task: TaskRow, fleet: Fleet): TaskFacts {
  const placed = fleet.findPlacement(task.id);
  const nodeId = placed?.nodeId ?? task.node_id;
  return {
    id: task.id,
    slot: task.replica,
    createdAt: task.created_at,
    desired: task.desired,
    nodeId,
    refused: task.refused,
    nodeLostAt: nodeId === null ? null : fleet.nodeLostAt(nodeId),
    observation: nodeId === null ? null : fleet.observation(nodeId, task.id),
  };
}
