import { type Manifest, releaseOf, storedManifestSchema } from "@svc/proto";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { edgesFollowing, edgesInRotation } from "../../fleet/routes/progress.ts";
import { listDraining } from "../../fleet/tasks/change.ts";
import { findTimedDeployment, listHosts } from "../../fleet/tasks/deployment.ts";
import type { TaskFacts } from "../../fleet/tasks/deployment-status.ts";
import { replicasOf } from "../../fleet/tasks/kinds/serve.ts";
import { findLastRun } from "../../fleet/tasks/run-rows.ts";
import { findRun } from "../../fleet/tasks/runs.ts";
import { listTasks } from "../../fleet/tasks/store.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Project, Run, Task } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { placeRelease } from "./place-release.ts";
import type { DeployFacts } from "./steps.ts";
import { isOvertaken, listServing } from "./store.ts";

export interface DeploymentFacts {
  facts: DeployFacts;
  deployment: Deployment;
  project: Project;
  manifest: Manifest;
  /** The newest attempt at its release command; null before the first. */
  attempt: Run | null;
  /** Where that is known to be offered; null before. */
  releaseNodeId: string | null;
  /** `facts` with what the fleet says now; what is in Postgres is as it was read, and so is the time. */
  factsNow: () => DeployFacts;
}

/** Of one that is on its way: no release command was ever offered, or will be. */
const withoutRelease: ReadonlySet<Deployment["release_status"]> = new Set(["not_configured", "skipped"]);

/**
 * Everything that decides a deployment's next step, read afresh; null when it is gone. It is read often, by many at once: what
 * decides in some situations only is read in those. `ownNow`: by the clock of the fleet's view.
 */
export async function readDeployFacts(
  { db, etcd, fleet }: { db: Db; etcd: Etcd; fleet: Fleet },
  id: string,
  ownNow: Date,
): Promise<DeploymentFacts | null> {
  // Waits are counted from times that the database gave, and replicas' clocks may differ from its.
  const [found, tasks] = await Promise.all([findTimedDeployment(db, id), listTasks(db, id)]);
  if (found === null) return null;
  const { deployment, project, channel, now } = found;
  const aheadMs = ownNow.getTime() - now.getTime();
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  const manifest = storedManifestSchema.parse(deployment.manifest);
  // Nothing has the channel before.
  const active = deployment.status === "deploying" && channel?.deploymentId === id;
  const isRefused = tasks.some((task) => task.desired !== "removed" && task.refused !== null);
  const [attempt, overtaken, hosts, edges, serving] = await Promise.all([
    withoutRelease.has(deployment.release_status) ? null : findLastRun(db, id, "release"),
    deployment.status === "queued" && isOvertaken(db, deployment),
    active ? listHosts(db, deployment) : [],
    active ? edgesInRotation(db) : [],
    isRefused ? listServing(db, deployment) : [],
  ]);
  const names = hosts.map(({ host }) => host);
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
      published: names.length > 0 && names.every(isPublished),
      edgesCurrent: edgesFollowing(fleet, edges, names),
      edgesInRotation: edges.length,
    };
  };
  const release = attempt === null ? null : await findRun({ etcd, fleet }, attempt.node_id, attempt.id);
  const looksForNode =
    deployment.status === "deploying" &&
    deployment.release_status === "pending" &&
    (attempt === null || release?.run.state === "refused" || release?.run.state === "not_started");
  const decision = looksForNode ? await placeRelease({ db, fleet }, deployment, project) : null;
  const refused = decision !== null && "refused" in decision ? decision.refused : null;
  const draining = refused !== null ? await listDraining(db, { projectIds: [project.id] }) : [];
  const releaseLostAt = release === null ? null : fleet.nodeLostAt(release.nodeId);
  const fleetFacts = () => {
    const serve = ofKind("serve");
    return { build: ofKind("build").at(-1) ?? null, serve, route: routeOf(serve) };
  };
  const facts: DeployFacts = {
    now,
    id,
    type: project.type,
    status: deployment.status,
    statusSince: deployment.phase_started_at ?? deployment.created_at,
    lookingSince: shared(fleet.lookingSince),
    cancelRequested: deployment.cancel_requested_at !== null,
    held: deployment.held_at !== null,
    projectGone: project.deleting_at !== null,
    suspended: project.suspended_at !== null,
    overtaken,
    artifact:
      deployment.artifact_kind && deployment.artifact_digest
        ? { kind: deployment.artifact_kind, digest: deployment.artifact_digest }
        : null,
    buildAttempts: attempts("build"),
    release: {
      timeoutSeconds: releaseOf(manifest).timeoutSeconds,
      status: deployment.release_status,
      attempt: attempt?.number ?? 0,
      run: release?.run ?? null,
      nodeLostAt: releaseLostAt && shared(releaseLostAt),
      refused,
    },
    healthTimeoutSeconds: manifest.health.timeoutSeconds,
    replicas: project.type === "static" ? 0 : replicasOf(manifest),
    serveAttempts: attempts("serve"),
    replacesContainers: serving.some(({ status, artifact_kind }) => status === "running" && artifact_kind === "image"),
    draining: draining.length > 0,
    active,
    activatedAt: active ? (channel?.changedAt ?? null) : null,
    ...fleetFacts(),
  };
  return {
    deployment,
    project,
    manifest,
    attempt,
    releaseNodeId: release?.nodeId ?? null,
    factsNow: () => ({ ...facts, ...fleetFacts() }),
    facts,
  };
}

/** A row of `task`, as far as anybody waits for its container. */
export type TaskRow = Pick<Task, "id" | "replica" | "created_at" | "desired" | "node_id" | "refused">;

/** The same with what its node says of it. */
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
