import { storedManifestSchema } from "@svc/proto";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { edgesFollowing, edgesInRotation } from "../../../fleet/routes/progress.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import {
  type DeploymentAndProject,
  findDeployment,
  findTimedDeployment,
  listHosts,
} from "../../../fleet/tasks/deployment.ts";
import { replicasOf } from "../../../fleet/tasks/kinds/serve.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import type { ClaimedWork } from "../../../stores/work/queue.ts";
import { taskFacts } from "../facts.ts";
import { isRetiring } from "../retire/request.ts";
import type { StartFacts, StopFacts } from "./steps.ts";

interface Payload {
  projectId: string;
  action: "stop" | "start";
  /** What production led to when somebody asked. */
  deploymentId: string;
}

export interface FoundLifecycle extends DeploymentAndProject {
  facts: StopFacts | StartFacts;
}

/**
 * Everything that decides the next step of a stop or a start, read afresh; null when there is nothing that it could be about.
 * A stop is about what has the channel now, a start about the deployment that was asked for.
 */
export async function readLifecycleFacts(
  { db, fleet }: { db: Db; fleet: Fleet },
  item: Pick<ClaimedWork, "id" | "payload">,
): Promise<FoundLifecycle | null> {
  const { projectId, action, deploymentId } = item.payload as Payload;
  const channel = await findChannelState(db, { project_id: projectId, channel: "production", pr_number: null });
  const aboutId = action === "stop" ? channel?.deployment_id : deploymentId;
  const found = aboutId == null ? null : await findTimedDeployment(db, aboutId);
  if (found === null) return null;
  const { deployment, project, now } = found;
  const aheadMs = fleet.now().getTime() - now.getTime();
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  const askedAt = await askedFor(db, item.id, now);
  const ours = channel?.deployment_id === deployment.id ? channel : null;
  const facts = {
    now,
    lookingSince: shared(fleet.lookingSince),
    askedAt,
    status: deployment.status,
    projectGone: project.deleting_at !== null,
    channel: ours && { stopped: ours.stopped, since: ours.changed_at },
    route: await readRoute({ db, fleet }, deployment, action),
  };
  if (action === "stop")
    return {
      deployment,
      project,
      facts: { ...facts, action, isCovered: await isCovered(db, deployment, deploymentId) },
    };
  return {
    deployment,
    project,
    facts: {
      ...facts,
      action,
      suspended: project.suspended_at !== null,
      error: deployment.error,
      retiring: await isRetiring(db, deployment.id),
      app: deployment.artifact_kind === "image" ? await readApp({ db, fleet }, deployment, { askedAt, shared }) : null,
    },
  };
}

async function askedFor(db: Db, itemId: number, now: Date): Promise<Date> {
  const row = await db.selectFrom("work_item").select("created_at").where("id", "=", itemId).executeTakeFirst();
  return row?.created_at ?? now;
}

/**
 * Whether a stop that was asked for while `askedId` had the traffic covers what has it now. What was accepted since takes
 * production over, also from a stop that comes late; what served before has it again when the other one did not get there.
 */
async function isCovered(db: Db, serving: Deployment, askedId: string): Promise<boolean> {
  if (serving.id === askedId || serving.held_at !== null) return true;
  const asked = await findDeployment(db, askedId);
  return asked !== null && serving.number < asked.deployment.number;
}

/** Whether visitors get the page, of a stop, or the site. */
async function readRoute(
  { db, fleet }: { db: Db; fleet: Fleet },
  deployment: Deployment,
  action: "stop" | "start",
): Promise<StopFacts["route"]> {
  const [hosts, edges] = await Promise.all([listHosts(db, deployment), edgesInRotation(db)]);
  const names = hosts.map(({ host }) => host);
  const isPublished = (host: string) => {
    const entry = fleet.route(host);
    const page = entry?.page?.page;
    if (action === "stop") return page === "PAGE_STOPPED" || page === "PAGE_SUSPENDED";
    return entry?.deploymentId === deployment.id && page === undefined;
  };
  return {
    published: names.every(isPublished),
    edgesCurrent: edgesFollowing(fleet, edges, names),
    edgesInRotation: edges.length,
  };
}

/** `shared` makes a time of the fleet's one of the database's. */
async function readApp(
  { db, fleet }: { db: Db; fleet: Fleet },
  deployment: Deployment,
  { askedAt, shared }: { askedAt: Date; shared: (at: Date) => Date },
): Promise<StartFacts["app"]> {
  const manifest = storedManifestSchema.parse(deployment.manifest);
  const tasks = (await listTasks(db, deployment.id)).filter(({ kind }) => kind === "serve");
  return {
    replicas: replicasOf(manifest),
    attempts: tasks.filter(({ created_at }) => created_at >= askedAt).length,
    containers: tasks
      .filter(({ desired }) => desired !== "removed")
      .map((task) => taskFacts(task, fleet))
      .map((each) => ({ ...each, nodeLostAt: each.nodeLostAt && shared(each.nodeLostAt) })),
    healthTimeoutSeconds: manifest.health.timeoutSeconds,
  };
}
