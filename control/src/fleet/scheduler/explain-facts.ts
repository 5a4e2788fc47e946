import {
  type ExplainedTask,
  type ExplainPlacementReply,
  isOciManifest,
  type Manifest,
  storedManifestSchema,
} from "@svc/proto";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Plan, Project, Task } from "../../stores/db/tables.ts";
import { hasOpenWork } from "../../stores/work/queue.ts";
import type { FleetView, HeldPlacement } from "../cluster/facts.ts";
import { findDeployment, retireKey } from "../tasks/deployment.ts";
import { buildResources } from "../tasks/kinds/build.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import { limitsOfPlan } from "../tasks/kinds/serve.ts";
import { listTasks } from "../tasks/store.ts";
import { explainNodes } from "./explain.ts";
import { type Errand, explainTask } from "./explain-task.ts";
import type { PlacementRequest } from "./filters.ts";
import { setAside } from "./limits.ts";
import { listSchedulableNodes } from "./snapshot.ts";

type Live = Pick<FleetView, "nodeLink" | "placements" | "observation" | "lateFailures">;
type Held = ReadonlyMap<string, HeldPlacement>;
/** When another one is made in place of a task that ended then; null: at once. */
export type NextTry = (task: Task, endedAt: Date) => Date | null;
const bytesPerMb = 1024 * 1024;

/** What stands in the way of one more container of the deployment, and of those that wait; null when there is none. */
export async function explainPlacement(
  { db, fleet, nextTry }: { db: Db; fleet: Live; nextTry: NextTry },
  deploymentId: string,
): Promise<Omit<ExplainPlacementReply, "ok"> | null> {
  const found = await findDeployment(db, deploymentId);
  if (found === null) return null;
  const { deployment, project } = found;
  const manifest = storedManifestSchema.parse(deployment.manifest);
  const [plan, nodes, all, isRetiring] = await Promise.all([
    planOfUser(db, project.owner_id),
    listSchedulableNodes(db, fleet),
    listTasks(db, deploymentId),
    hasOpenWork(db, retireKey(deploymentId)),
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
  const errand = errandOf(deployment, project, isRetiring);
  const names = new Map(nodes.map(({ id, name }) => [id, name]));
  const images = new Map([[request.specHash, new Set([...own].flatMap((id) => nodeWithImage(held.get(id))))]]);
  const failures = fleet.lateFailures();
  const { id, project_id, channel, status } = deployment;
  const { kind, memoryMb, cpuMillicores, pidsLimit, platform } = request;
  return {
    deployment: { id, projectId: project_id, channel, status, replicas: wantedReplicas(manifest) },
    request: { kind, memoryMb, cpuMillicores, pidsLimit, platform, nodeSelector: plan.node_selector },
    tasks: tasks.map((task) => explainedTask(task, errand, { fleet, held, names, nextTry })),
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

/** What somebody does about the containers of a deployment, as far as its rows say. */
function errandOf({ status }: Deployment, project: Project, isRetiring: boolean): Errand {
  if (status === "queued" || status === "building" || status === "deploying") return "deploys";
  if (project.deleting_at !== null) return "leaves";
  if (status === "running" && project.suspended_at !== null) return project.resuming_at === null ? "leaves" : "resumes";
  if (status === "running") return "serves";
  return status === "stopped" && project.suspended_at === null && !isRetiring ? "starts" : "leaves";
}

function explainedTask(
  task: Task,
  errand: Errand,
  { fleet, held, names, nextTry }: { fleet: Live; held: Held; names: ReadonlyMap<string, string>; nextTry: NextTry },
): ExplainedTask {
  const placed = held.get(task.id);
  const nodeId = placed?.nodeId ?? task.node_id;
  const said = nodeId === null ? null : fleet.observation(nodeId, task.id);
  const problem = explainTask({
    kind: task.kind === "serve" ? "serve" : "other",
    errand,
    node: nodeId === null ? null : fleet.nodeLink(nodeId),
    ...{ refused: task.refused, crashing: task.crashing, said },
    serving: placed?.serving ?? false,
    retiring: task.retiring_at !== null,
    nextTryAt: said === null ? null : nextTry(task, new Date(said.changedAt)),
  });
  return {
    kind: task.kind,
    replica: task.replica,
    node: nodeId === null ? null : { id: nodeId, name: names.get(nodeId) ?? nodeId },
    observed: placed?.observed ?? said?.observed ?? null,
    health: placed?.health ?? null,
    retiring: task.retiring_at !== null,
    createdAt: task.created_at.toISOString(),
    problem,
  };
}
