import { isOciManifest, type Manifest, manifestSchema, releaseOf } from "@svc/proto";
import type { Fleet } from "../cluster/fleet.ts";
import type { Db } from "../db/pool.ts";
import type { Deployment, Project, Task } from "../db/tables.ts";
import type { Etcd } from "../etcd/index.ts";
import { releaseAttemptId } from "../tasks/assignment.ts";
import { edgeProgress } from "./edges.ts";
import { findRun } from "./runs.ts";
import type { DeployFacts, TaskFacts } from "./steps.ts";
import { findChannelState, findDeployment, isOvertaken, listHosts, listTasks } from "./store.ts";

export interface DeploymentFacts {
  facts: DeployFacts;
  deployment: Deployment;
  project: Project;
  manifest: Manifest;
  /** Where the present release attempt was offered; null before. */
  releaseNodeId: string | null;
}

/** Everything that decides a deployment's next step, read afresh; null when it is gone. */
export async function readDeployFacts(
  { db, etcd, fleet }: { db: Db; etcd: Etcd; fleet: Fleet },
  id: string,
  now: Date,
): Promise<DeploymentFacts | null> {
  const found = await findDeployment(db, id);
  if (found === null) return null;
  const { deployment, project } = found;
  const manifest = manifestSchema.parse(deployment.manifest);
  const hosts = (await listHosts(db, deployment)).map(({ host }) => host);
  const [tasks, state, overtaken, progress] = await Promise.all([
    listTasks(db, id),
    findChannelState(db, deployment),
    isOvertaken(db, deployment),
    edgeProgress(db, fleet, hosts),
  ]);
  const wanted = tasks.filter((task) => task.desired !== "removed");
  const ofKind = (kind: Task["kind"]) =>
    wanted.filter((task) => task.kind === kind).map((task) => taskFacts(task, fleet));
  const attempts = (kind: Task["kind"]) => tasks.filter((task) => task.kind === kind).length;
  const active = state?.deployment_id === id;
  const upstreams = new Set(ofKind("serve").map((task) => task.observation?.upstream ?? ""));
  const isPublished = (host: string) => {
    const entry = fleet.route(host);
    if (entry?.deploymentId !== id || entry.page) return false;
    return entry.proxy ? entry.proxy.upstreams.some((upstream) => upstreams.has(upstream)) : entry.static !== undefined;
  };
  const attempt = deployment.release_attempt;
  const release =
    attempt === 0 || deployment.release_node_id === null
      ? null
      : await findRun({ etcd, fleet }, deployment.release_node_id, releaseAttemptId(id, attempt));
  return {
    deployment,
    project,
    manifest,
    releaseNodeId: release?.nodeId ?? null,
    facts: {
      now,
      id,
      type: project.type,
      status: deployment.status,
      statusSince: deployment.phase_started_at ?? deployment.created_at,
      lookingSince: fleet.lookingSince,
      cancelRequested: deployment.cancel_requested_at !== null,
      projectGone: project.deleting_at !== null,
      suspended: project.suspended_at !== null,
      overtaken,
      artifact:
        deployment.artifact_kind && deployment.artifact_digest
          ? { kind: deployment.artifact_kind, digest: deployment.artifact_digest }
          : null,
      buildAttempts: attempts("build"),
      build: ofKind("build").at(-1) ?? null,
      release: {
        timeoutSeconds: releaseOf(manifest).timeoutSeconds,
        status: deployment.release_status,
        attempt,
        run: release?.run ?? null,
        nodeLostAt: release ? fleet.nodeLostAt(release.nodeId) : null,
      },
      healthTimeoutSeconds: manifest.health.timeoutSeconds,
      replicas: isOciManifest(manifest) ? 1 : manifest.app.type === "static" ? 0 : manifest.app.replicas,
      serveAttempts: attempts("serve"),
      serve: ofKind("serve"),
      active,
      activatedAt: active ? (state?.changed_at ?? null) : null,
      route: {
        published: hosts.length > 0 && hosts.every(isPublished),
        edgesCurrent: progress.current,
        edgesInRotation: progress.inRotation,
      },
    },
  };
}

/** A row of `task` with what its node says of it. */
export function taskFacts(task: Task, fleet: Fleet): TaskFacts {
  const placed = fleet.findPlacement(task.id);
  const nodeId = placed?.nodeId ?? task.node_id;
  return {
    id: task.id,
    createdAt: task.created_at,
    desired: task.desired,
    nodeId,
    refused: task.refused,
    nodeLostAt: nodeId === null ? null : fleet.nodeLostAt(nodeId),
    observation: nodeId === null ? null : fleet.observation(nodeId, task.id),
  };
}
