import { create } from "@bufbuild/protobuf";
import { isOciManifest } from "@svc/proto";
import { type Placement, PlacementSchema, type RunOffer, RunOfferSchema } from "@svc/proto/node";
import { createBatch } from "@svc/runtime/batch";
import { canonicalJson } from "@svc/runtime/canonical-json";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { DeploymentAndProject } from "./deployment.ts";
import { findDeployment } from "./deployment.ts";
import { openOwner } from "./environment.ts";
import { forNode, specOf } from "./kinds/index.ts";
import type { Installation } from "./kinds/kind.ts";
import { limitsOfPlan } from "./kinds/serve.ts";
import { listPriorBuilds, type PriorBuild } from "./prior-builds.ts";

export interface AssignmentDeps extends Installation {
  db: Db;
  secrets: Secrets;
}

/** What is stored of one placement cannot be read: its `cause` says why. Others, and another try, are no concern of it. */
export class PlacementUnreadable extends Error {
  override readonly name = "PlacementUnreadable";
}

/** What stands for variables of builds is made for this place, so that equal ones of two projects do not show. */
const buildEnvAad = (projectId: string) => `project/${projectId}/build_env`;

/** The whole placement as its node must know it, secrets included, apart from its limits; null when there is nothing to do. */
function placementOf(
  deps: AssignmentDeps,
  task: Task,
  found: DeploymentAndProject | null,
  priorBuilds: readonly PriorBuild[],
): Placement | null {
  const owner = found && openOwner(deps.secrets, found);
  const envDigest = () =>
    deps.secrets.digest(Buffer.from(canonicalJson(owner?.ownEnv ?? {})), buildEnvAad(task.project_id));
  const spec = forNode(specOf(task), { ...deps, owner, envDigest, priorBuilds });
  if (spec === null) return null;
  return create(PlacementSchema, {
    placementId: task.id,
    epoch: BigInt(task.epoch),
    specHash: task.spec_hash,
    projectId: task.project_id,
    deploymentId: task.owner_id,
    channel: task.channel,
    spec,
  });
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

type Loaded = { placement: Placement | null } | { error: PlacementUnreadable };

/** All of them by four queries at once. What is wrong with one is its own. */
async function loadPlacements(deps: AssignmentDeps, placementIds: readonly string[]): Promise<Loaded[]> {
  const { db } = deps;
  // One that is no id of a task must not cost the others theirs.
  const ids = placementIds.filter((id) => uuid.test(id));
  const among = sql<string>`any(${ids}::uuid[])`;
  const [tasks, deployments, projects, priorBuilds] = await Promise.all([
    db.selectFrom("task").selectAll().where("id", "=", among).execute(),
    db
      .selectFrom("deployment")
      .selectAll()
      .where("id", "in", (of) => of.selectFrom("task").select("owner_id").where("id", "=", among))
      .execute(),
    db
      .selectFrom("project")
      .selectAll()
      .where("id", "in", (of) => of.selectFrom("task").select("project_id").where("id", "=", among))
      .execute(),
    listPriorBuilds(db, ids),
  ]);
  const byId = <T extends { id: string }>(rows: readonly T[]) => new Map(rows.map((row) => [row.id, row]));
  const [taskOf, deploymentOf, projectOf] = [byId(tasks), byId(deployments), byId(projects)];
  return placementIds.map((placementId) => {
    const task = taskOf.get(placementId);
    const deployment = task && deploymentOf.get(task.owner_id);
    const project = deployment && projectOf.get(deployment.project_id);
    if (task === undefined) return { placement: null };
    try {
      const found = deployment && project ? { deployment, project } : null;
      return { placement: placementOf(deps, task, found, priorBuilds.get(task.owner_id) ?? []) };
    } catch (cause) {
      return { error: new PlacementUnreadable(`what is stored of placement ${placementId} cannot be read`, { cause }) };
    }
  });
}

const loadedAtOnce = 200;
const waitingMax = 100_000;

/**
 * Loads the spec of a placement, its secrets included; null when the task is gone. What many sessions ask for at once
 * is read together. Throws `PlacementUnreadable`.
 */
export function createPlacementLoader(
  clock: Clock,
  deps: AssignmentDeps,
): (placementId: string) => Promise<Placement | null> {
  const load = createBatch<Loaded>({
    clock,
    ask: (ids) => loadPlacements(deps, ids),
    sizeMax: loadedAtOnce,
    waitingMax,
  });
  return async (placementId) => {
    const loaded = await load(placementId);
    if (loaded !== null && "error" in loaded) throw loaded.error;
    return loaded?.placement ?? null;
  };
}

/** The release command as the node is offered it; null when there is none. */
export async function loadRun(deps: AssignmentDeps, attemptId: string): Promise<RunOffer | null> {
  if (!uuid.test(attemptId)) return null;
  const run = await deps.db.selectFrom("run").select("owner_id").where("id", "=", attemptId).executeTakeFirst();
  const found = run === undefined ? null : await findDeployment(deps.db, run.owner_id);
  if (found === null) return null;
  const { deployment, project, manifest, env, ownEnv } = openOwner(deps.secrets, found);
  if (isOciManifest(manifest) || manifest.release === undefined) return null;
  if (deployment.artifact_repository === null || deployment.artifact_digest === null) return null;
  const plan = await planOfUser(deps.db, project.owner_id);
  return create(RunOfferSchema, {
    attemptId,
    projectId: project.id,
    deploymentId: deployment.id,
    channel: deployment.channel,
    image: {
      reference: `${deps.registryHost}/${deployment.artifact_repository}@${deployment.artifact_digest}`,
      maxSizeMb: plan.storage_mb,
    },
    command: manifest.release?.command ?? "",
    env,
    redact: Object.values(ownEnv),
    resources: limitsOfPlan(plan),
    timeoutSeconds: manifest.release?.timeoutSeconds ?? 0,
  });
}

/** Whether a log stream is of work that was given to this node: of a task, or of a run. Holds its row. */
export async function ownsLogStream(db: Db, nodeId: string, streamId: string): Promise<boolean> {
  if (!uuid.test(streamId)) return false;
  for (const table of ["task", "run"] as const) {
    const row = await db
      .selectFrom(table)
      .select("id")
      .where("id", "=", streamId)
      .where("node_id", "=", nodeId)
      .forKeyShare()
      .executeTakeFirst();
    if (row !== undefined) return true;
  }
  return false;
}
