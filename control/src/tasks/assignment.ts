import { create } from "@bufbuild/protobuf";
import { isOciManifest, manifestSchema } from "@svc/proto";
import { type Placement, PlacementSchema, type RunOffer, RunOfferSchema } from "@svc/proto/node";
import type { Db } from "../db/pool.ts";
import { findDeployment } from "../deployments/store.ts";
import { planOfUser } from "../plans/of-user.ts";
import type { Secrets } from "../secrets.ts";
import { platformEnv, taskSpec } from "./spec.ts";

export interface AssignmentDeps {
  db: Db;
  secrets: Secrets;
  /** host:port of the cluster's registry as image references name it. */
  registryHost: string;
  baseImage: string;
  buildCaBundle: string;
}

const stopGraceSeconds = 30;

/** The sealed environment of a deployment lives at this place; see `Secrets`. */
export const envAad = (deploymentId: string) => `deployment/${deploymentId}/env`;

/** The sealed variables of its packed env files live here. */
export const fileEnvAad = (deploymentId: string) => `deployment/${deploymentId}/file_env`;

/** Opens the environment that a deployment was accepted with. Throws `CannotOpen`. */
function openEnv(secrets: Secrets, deployment: { id: string; env: Buffer | null }): Record<string, string> {
  if (deployment.env === null) return {};
  return JSON.parse(secrets.open(deployment.env, envAad(deployment.id)).toString("utf8")) as Record<string, string>;
}

async function environment(deps: AssignmentDeps, deploymentId: string) {
  const found = await findDeployment(deps.db, deploymentId);
  if (found === null) return null;
  const manifest = manifestSchema.parse(found.deployment.manifest);
  const env = {
    ...openEnv(deps.secrets, found.deployment),
    ...platformEnv(found.deployment, found.project, manifest),
  };
  return { ...found, manifest, env };
}

/** A deployment's own variables, without the platform's facts: a build is not repeated for an id that is new each time. */
async function ownVariables(deps: AssignmentDeps, deploymentId: string): Promise<Record<string, string>> {
  const found = await findDeployment(deps.db, deploymentId);
  return found === null ? {} : openEnv(deps.secrets, found.deployment);
}

/** The whole placement as its node must know it, secrets included, apart from its limits; null when the task is gone. */
export async function loadPlacement(deps: AssignmentDeps, placementId: string): Promise<Placement | null> {
  const task = await deps.db.selectFrom("task").selectAll().where("id", "=", placementId).executeTakeFirst();
  if (task === undefined) return null;
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
    const env = await ownVariables(deps, task.deployment_id);
    return create(PlacementSchema, {
      ...base,
      spec: {
        case: "build",
        value: {
          ...rest,
          recipe:
            "static" in recipe ? { case: "static", value: recipe.static } : { case: "image", value: recipe.image },
          baseImage: deps.baseImage,
          caBundle: deps.buildCaBundle,
          env,
          redact: Object.values(env),
        },
      },
    });
  }
  const known = await environment(deps, task.deployment_id);
  if (known === null) return null;
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
        env: known.env,
        redact: Object.values(openEnv(deps.secrets, known.deployment)),
        port: spec.port,
        health: spec.health,
        stopGraceSeconds,
      },
    },
  });
}

/** `<deployment id>.<n>`: the n-th attempt at a deployment's release command. */
export const releaseAttemptId = (deploymentId: string, attempt: number) => `${deploymentId}.${attempt}`;

/** The deployment that an attempt belongs to. */
const deploymentOfAttempt = (attemptId: string): string => attemptId.split(".")[0] ?? "";

/** The release command as the node is offered it; null when there is none. */
export async function loadRun(deps: AssignmentDeps, attemptId: string): Promise<RunOffer | null> {
  const known = await environment(deps, deploymentOfAttempt(attemptId));
  if (known === null || isOciManifest(known.manifest) || known.manifest.release === undefined) return null;
  const { deployment, project, manifest, env } = known;
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
    resources: { memoryMb: plan.memory_mb, cpuMillicores: plan.cpu_millicores, pidsLimit: plan.pids_limit },
    timeoutSeconds: manifest.release?.timeoutSeconds ?? 0,
  });
}

/** Whether a log stream (a placement's or an attempt's id) is of work that was given to this node. */
export async function ownsLogStream(db: Db, nodeId: string, streamId: string): Promise<boolean> {
  const [id = "", attempt] = streamId.split(".");
  if (!/^[0-9a-f-]{36}$/.test(id)) return false;
  const row =
    attempt === undefined
      ? await db.selectFrom("task").select("id").where("id", "=", id).where("node_id", "=", nodeId).executeTakeFirst()
      : await db
          .selectFrom("deployment")
          .select("id")
          .where("id", "=", id)
          .where("release_node_id", "=", nodeId)
          .where("release_attempt", "=", Number(attempt))
          .executeTakeFirst();
  return row !== undefined;
}
