import {
  type ExplainedTask,
  type ExplainPlacementReply,
  isOciManifest,
  type Manifest,
  storedManifestSchema,
} from "@svc/proto";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Plan, Task } from "../../stores/db/tables.ts";
import type { FleetView, HeldPlacement } from "../cluster/facts.ts";
import type { CrashingValue } from "../cluster/keys.ts";
import { findDeployment } from "../tasks/deployment.ts";
import { buildResources } from "../tasks/kinds/build.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import { limitsOfPlan } from "../tasks/kinds/serve.ts";
import { listTasks } from "../tasks/store.ts";
import { explainNodes } from "./explain.ts";
import type { PlacementRequest } from "./filters.ts";
import { setAside } from "./limits.ts";
import { explainRefusal } from "./placement.ts";
import { listSchedulableNodes } from "./snapshot.ts";

type Live = Pick<FleetView, "nodeLink" | "placements" | "lateFailures">;
const bytesPerMb = 1024 * 1024;

/** What stands in the way of one more container of the deployment, and of those that wait; null when there is none. */
export async function explainPlacement(
  { db, fleet }: { db: Db; fleet: Live },
  deploymentId: string,
): Promise<Omit<ExplainPlacementReply, "ok"> | null> {
  const found = await findDeployment(db, deploymentId);
  if (found === null) return null;
  const { deployment, project } = found;
  const manifest = storedManifestSchema.parse(deployment.manifest);
  const [plan, nodes, all] = await Promise.all([
    planOfUser(db, project.owner_id),
    listSchedulableNodes(db, fleet),
    listTasks(db, deploymentId),
  ]);
  const tasks = all.filter(({ desired, reaped_at }) => desired !== "removed" && reaped_at === null);
  const held = new Map(fleet.placements().map((each) => [each.placementId, each]));
  const request = requestFor(deployment, manifest, plan);
  const own = new Set(all.map(({ id }) => id));
  const taken = [...held.values()].map((each) => ({
    ...each,
    // Whose the others are makes no difference here.
    ...(own.has(each.placementId) ? ids(deployment) : { projectId: "", ownerId: "" }),
  }));
  const names = new Map(nodes.map(({ id, name }) => [id, name]));
  const images = new Map([[request.specHash, new Set([...own].flatMap((id) => nodeWithImage(held.get(id))))]]);
  const failures = fleet.lateFailures();
  const { id, project_id, channel, status } = deployment;
  const { kind, memoryMb, cpuMillicores, pidsLimit, platform } = request;
  return {
    deployment: { id, projectId: project_id, channel, status, replicas: wantedReplicas(manifest) },
    request: { kind, memoryMb, cpuMillicores, pidsLimit, platform, nodeSelector: plan.node_selector },
    tasks: tasks.map((task) => explainedTask(task, held.get(task.id), names)),
    nodes: explainNodes(nodes, taken, request, { images, failures: failures ?? new Map() }),
    failuresKnown: failures !== null,
  };
}

const ids = ({ id, project_id }: Deployment) => ({ projectId: project_id, ownerId: id });

const wantedReplicas = (manifest: Manifest): number =>
  isOciManifest(manifest) ? 1 : manifest.app.type === "static" ? 0 : manifest.app.replicas;

/** A build until there is something to serve, and for sites that need no container. */
function requestFor(deployment: Deployment, manifest: Manifest, plan: Plan): PlacementRequest {
  const isBuild = !isOciManifest(manifest) && (wantedReplicas(manifest) === 0 || deployment.artifact_digest === null);
  const { artifact_os: os, artifact_architecture: architecture, artifact_size } = deployment;
  return {
    id: deployment.id,
    ...ids(deployment),
    kind: isBuild ? "build" : "serve",
    specHash: deployment.id,
    ...setAside(isBuild ? buildResources : limitsOfPlan(plan)),
    diskMb: isBuild ? 0 : Math.ceil((artifact_size ?? 0) / bytesPerMb),
    platform: !isBuild && os !== null && architecture !== null ? { os, architecture } : null,
    nodeSelector: plan.node_selector,
    pinnedTo: null,
    hasDockerfile: isBuild && (manifest.build.dockerfile ?? "") !== "",
  };
}

const nodeWithImage = (held: HeldPlacement | undefined): string[] =>
  held !== undefined && rulesOf(held.kind).hasImage && ["created", "starting", "running"].includes(held.observed ?? "")
    ? [held.nodeId]
    : [];

function explainedTask(task: Task, held: HeldPlacement | undefined, names: ReadonlyMap<string, string>): ExplainedTask {
  const nodeId = held?.nodeId ?? task.node_id;
  return {
    kind: task.kind,
    replica: task.replica,
    node: nodeId === null ? null : { id: nodeId, name: names.get(nodeId) ?? nodeId },
    observed: held?.observed ?? null,
    health: held?.health ?? null,
    retiring: task.retiring_at !== null,
    createdAt: task.created_at.toISOString(),
    problem: problemOf(task, nodeId),
  };
}

/** What its agent does about it: see `nextCrash` there. */
const crashText = ({ since, count, reason, nextStartAt }: CrashingValue): string =>
  `It ended ${count} ${count === 1 ? "time" : "times"} in a row since ${since}: ${reason} ${
    nextStartAt === null
      ? "After ten in a row it is not started any more."
      : `Started again at ${nextStartAt}: at once the first time, then a second later and twice as long each time, until it has run for a minute.`
  }`;

function problemOf({ refused, crashing }: Task, nodeId: string | null): string | null {
  if (nodeId !== null) {
    const kept = refused === null ? null : `It keeps its limits: ${Object.keys(refused).join("; ")}.`;
    const parts = [crashing && crashText(crashing), kept].filter((part) => part !== null);
    return parts.length === 0 ? null : parts.join(" ");
  }
  return refused === null ? "No scheduler has looked at it yet." : `No node takes it: ${explainRefusal(refused)}.`;
}
