import { create } from "@bufbuild/protobuf";
import { isOciManifest, storedManifestSchema } from "@svc/proto";
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
import { listPriorBuilds, type PriorBuild } from "./prior-builds.ts";
import { limitsOfPlan, platformEnv, taskSpec } from "./spec.ts";

export interface AssignmentDeps {
  db: Db;
  secrets: Secrets;
  /** host:port of the cluster's registry as image references name it. */
  registryHost: string;
  baseImage: string;
  builderImage: string;
  buildCaBundle: string;
}

const stopGraceSeconds = 30;

/** What is stored of one placement cannot be read: its `cause` says why. Others, and another try, are no concern of it. */
export class PlacementUnreadable extends Error {
  override readonly name = "PlacementUnreadable";
}

/** The sealed environment of a deployment lives at this place; see `Secrets`. */
export const envAad = (deploymentId: string) => `deployment/${deploymentId}/env`;

/** The sealed variables of its packed env files live here. */
export const fileEnvAad = (deploymentId: string) => `deployment/${deploymentId}/file_env`;

/** What stands for variables of builds is made for this place, so that equal ones of two projects do not show. */
const buildEnvAad = (projectId: string) => `project/${projectId}/build_env`;

const asMessage = ({ deploymentId, key, digest, sizeBytes, os, architecture }: PriorBuild) => ({
  ...{ deploymentId, key, digest, sizeBytes: BigInt(sizeBytes) },
  ...(os !== null && architecture !== null && { platform: { os, architecture } }),
});

/** Opens the environment that a deployment was accepted with. Throws `CannotOpen`. */
function openEnv(secrets: Secrets, deployment: { id: string; env: Buffer | null }): Record<string, string> {
  if (deployment.env === null) return {};
  return JSON.parse(secrets.open(deployment.env, envAad(deployment.id)).toString("utf8")) as Record<string, string>;
}

/** Everything that a container of the deployment is told; its own variables, and the platform's over them. */
function environment(deps: AssignmentDeps, found: DeploymentAndProject) {
  const manifest = storedManifestSchema.parse(found.deployment.manifest);
  const env = {
    ...openEnv(deps.secrets, found.deployment),
    ...platformEnv(found.deployment, found.project, manifest),
  };
  return { ...found, manifest, env };
}

/**
 * The whole placement as its node must know it, secrets included, apart from its limits. Of a build the environment is
 * without the platform's facts: it is not repeated for an id that is new each time.
 */
function placementOf(
  deps: AssignmentDeps,
  task: Task,
  found: DeploymentAndProject | null,
  priorBuilds: readonly PriorBuild[],
): Placement | null {
  const base = {
    placementId: task.id,
    epoch: BigInt(task.epoch),
    specHash: task.spec_hash,
    projectId: task.project_id,
    deploymentId: task.deployment_id,
    channel: task.channel,
  };
  const spec = taskSpec.parse(task.spec);
  if (spec.kind === "build") {
    const { kind: _, recipe, ...rest } = spec;
    const env = found === null ? {} : openEnv(deps.secrets, found.deployment);
    return create(PlacementSchema, {
      ...base,
      spec: {
        case: "build",
        value: {
          ...rest,
          recipe:
            "static" in recipe ? { case: "static", value: recipe.static } : { case: "image", value: recipe.image },
          baseImage: deps.baseImage,
          builderImage: deps.builderImage,
          caBundle: deps.buildCaBundle,
          env,
          envDigest: deps.secrets.digest(Buffer.from(canonicalJson(env)), buildEnvAad(task.project_id)),
          redact: Object.values(env),
          priorBuilds: priorBuilds.filter(({ repository }) => repository === spec.targetRepository).map(asMessage),
          noCache: found?.deployment.force_build === true,
        },
      },
    });
  }
  if (found === null) return null;
  return create(PlacementSchema, {
    ...base,
    spec: {
      case: "serve",
      value: {
        image: {
          reference: `${spec.registryHost ?? deps.registryHost}/${spec.repository}@${spec.digest}`,
          maxSizeMb: spec.maxImageMb,
        },
        command: spec.command,
        env: environment(deps, found).env,
        redact: Object.values(openEnv(deps.secrets, found.deployment)),
        port: spec.port,
        health: spec.health,
        stopGraceSeconds,
      },
    },
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
      .where("id", "in", (of) => of.selectFrom("task").select("deployment_id").where("id", "=", among))
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
    const deployment = task && deploymentOf.get(task.deployment_id);
    const project = deployment && projectOf.get(deployment.project_id);
    if (task === undefined) return { placement: null };
    try {
      const found = deployment && project ? { deployment, project } : null;
      return { placement: placementOf(deps, task, found, priorBuilds.get(task.deployment_id) ?? []) };
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

/** The deployment that an attempt belongs to. */
const deploymentOfAttempt = (attemptId: string): string => attemptId.split(".")[0] ?? "";

/** The release command as the node is offered it; null when there is none. */
export async function loadRun(deps: AssignmentDeps, attemptId: string): Promise<RunOffer | null> {
  const found = await findDeployment(deps.db, deploymentOfAttempt(attemptId));
  if (found === null) return null;
  const { deployment, project, manifest, env } = environment(deps, found);
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
    redact: Object.values(openEnv(deps.secrets, deployment)),
    resources: limitsOfPlan(plan),
    timeoutSeconds: manifest.release?.timeoutSeconds ?? 0,
  });
}

/** A placement's id, or the deployment's and the number of an attempt at its release command: one spelling for each. */
const streamPattern = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([1-9]\d{0,8}))?$/;

/** Whether a log stream is of work that was given to this node. */
export async function ownsLogStream(db: Db, nodeId: string, streamId: string): Promise<boolean> {
  const [, id, attempt] = streamPattern.exec(streamId) ?? [];
  if (id === undefined) return false;
  const row =
    attempt === undefined
      ? await db
          .selectFrom("task")
          .select("id")
          .where("id", "=", id)
          .where("node_id", "=", nodeId)
          .forKeyShare()
          .executeTakeFirst()
      : await db
          .selectFrom("deployment")
          .select("id")
          .where("id", "=", id)
          .where("release_node_id", "=", nodeId)
          .where("release_attempt", "=", Number(attempt))
          .forKeyShare()
          .executeTakeFirst();
  return row !== undefined;
}
