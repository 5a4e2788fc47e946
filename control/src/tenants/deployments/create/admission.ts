import {
  type Channel,
  type DatabaseEngine,
  type DeploymentMetadata,
  type ErrorCode,
  isOciManifest,
  type Manifest,
  manifestType,
  type ProjectType,
  plural,
  type SuspendReason,
} from "@svc/proto";
import type { Plan, Project } from "../../../stores/db/tables.ts";
import { suspendedRefusal, suspensionOf } from "../../projects/suspended.ts";

/** Why a deployment is not accepted; without a message the catalogue's sentence says it, and so with the status. */
export interface Refusal {
  code: ErrorCode;
  message?: string;
  status?: number;
}

export interface ProjectFacts {
  type: ProjectType;
  deployMode: "auto" | "preview";
  /** Why it is suspended; null when it is not. */
  suspended: SuspendReason | null;
}

export const factsOf = (
  project: Pick<Project, "type" | "deploy_mode" | "suspended_at" | "suspend_reason">,
): ProjectFacts => ({
  type: project.type,
  deployMode: project.deploy_mode,
  suspended: suspensionOf(project),
});

export interface DeployerFacts {
  emailVerified: boolean;
}

type PlanFeatures = Pick<
  Plan,
  | "max_image_mb"
  | "max_databases"
  | "max_scheduled_jobs"
  | "max_replicas"
  | "max_drain_seconds"
  | "dev_sync_enabled"
  | "previews_enabled"
>;

/** The managed databases of a project. */
export interface DatabaseFacts {
  /** What they run on for good; null: it never had one. */
  engine: DatabaseEngine | null;
  /** Channels whose own can be used. */
  ready: readonly Channel[];
}

/** What stands against any deployment of the project, whatever it holds: known before the upload is read. */
export function projectRefusal(project: ProjectFacts, deployer: DeployerFacts, plan: PlanFeatures): Refusal | null {
  if (project.suspended !== null) return suspendedRefusal(project.suspended);
  if (!deployer.emailVerified) return { code: "EMAIL_NOT_VERIFIED" };
  if (project.type === "ociimage" && plan.max_image_mb === 0) {
    return { code: "PLAN_FEATURE_UNAVAILABLE", message: "The plan does not include container images." };
  }
  return null;
}

/** Where an accepted deployment goes. `prNumber` null: the stable address of the channel. */
export interface Admission {
  channel: Channel;
  prNumber: number | null;
}

/**
 * The channel that the manifest forces, else that of the project's deploy mode, if the plan has it.
 */
export function admit(
  manifest: Manifest,
  metadata: DeploymentMetadata,
  { project, plan, databases }: { project: ProjectFacts; plan: PlanFeatures; databases: DatabaseFacts },
): Admission | { refusal: Refusal } {
  const type = manifestType(manifest);
  if (type !== project.type) {
    return refuse(
      "VALIDATION",
      `The manifest is for a project of type ${type}, and this one is of type ${project.type}.`,
    );
  }
  const channel = manifest.channel ?? (project.deployMode === "preview" ? "preview" : "production");
  const refusal = channelRefusal(channel, type, plan) ?? needsRefusal(manifest, plan, channel, databases);
  if (refusal !== null) return { refusal };
  // Where it came from chooses neither channel nor access; it only keeps pull requests apart within Preview.
  return { channel, prNumber: channel === "preview" ? (metadata.gitPrNumber ?? null) : null };
}

/**
 * What stands against deploying once more, to `channel`, what was deployed before. No database is ever made for
 * it, so one that is missing is the answer whether or not the plan has any.
 */
export function readmit(
  manifest: Manifest,
  channel: Channel,
  { plan, databases }: { plan: PlanFeatures; databases: DatabaseFacts },
): Refusal | null {
  if (needsDatabase(manifest) && !databases.ready.includes(channel)) return { code: "DATABASE_NOT_READY" };
  return channelRefusal(channel, manifestType(manifest), plan) ?? needsRefusal(manifest, plan, channel, databases);
}

function channelRefusal(channel: Channel, type: ProjectType, plan: PlanFeatures): Refusal | null {
  if (channel === "preview" && !plan.previews_enabled) return { code: "PREVIEW_UNAVAILABLE" };
  if (channel !== "dev") return null;
  if (type !== "ssr") return { code: "VALIDATION", message: `Projects of type ${type} have no dev channel.` };
  return plan.dev_sync_enabled
    ? null
    : { code: "PLAN_FEATURE_UNAVAILABLE", message: "The plan does not include the dev channel." };
}

/** What the manifest asks for besides a place to run. */
function needsRefusal(
  manifest: Manifest,
  plan: PlanFeatures,
  channel: Channel,
  databases: DatabaseFacts,
): Refusal | null {
  // Without one it has what the plan allows, if that is less than usual.
  const drain = manifest.drain?.seconds ?? 0;
  if (drain > plan.max_drain_seconds) {
    return {
      code: "QUOTA_EXCEEDED",
      message: `The manifest asks for a drain of ${plural(drain, "second")} and the plan allows ${plan.max_drain_seconds}. Lower drain.seconds, or ask for a larger plan.`,
    };
  }
  if (isOciManifest(manifest)) return null;
  const refusal = databaseRefusal(manifest, plan, channel, databases);
  if (refusal !== null) return refusal;
  const jobs = manifest.jobs.length;
  if (jobs > plan.max_scheduled_jobs) {
    return {
      code: "QUOTA_EXCEEDED",
      message: `The manifest has ${plural(jobs, "scheduled job")} and the plan allows ${plan.max_scheduled_jobs}.`,
    };
  }
  const { replicas } = manifest.app;
  return replicas > plan.max_replicas
    ? {
        code: "QUOTA_EXCEEDED",
        message: `The manifest asks for ${plural(replicas, "replica")} and the plan allows ${plan.max_replicas}. Lower app.replicas, or ask for a larger plan.`,
      }
    : null;
}

/** Nothing is ever made for a deployment: whoever wants a database asks for it first. */
function databaseRefusal(
  manifest: Manifest,
  plan: Pick<PlanFeatures, "max_databases">,
  channel: Channel,
  { engine, ready }: DatabaseFacts,
): Refusal | null {
  if (isOciManifest(manifest) || !manifest.database.enabled) return null;
  const isReady = ready.includes(channel);
  if (!isReady && plan.max_databases === 0) {
    return { code: "PLAN_FEATURE_UNAVAILABLE", message: "The plan does not include managed databases." };
  }
  if (engine !== null && engine !== manifest.database.engine) {
    return {
      code: "DATABASE_ENGINE_CONFLICT",
      message: `The manifest asks for ${manifest.database.engine}, and the databases of this project run on ${engine} for good. Set database.engine to ${engine}.`,
    };
  }
  return isReady ? null : { code: "DATABASE_NOT_READY" };
}

const needsDatabase = (manifest: Manifest): boolean => !isOciManifest(manifest) && manifest.database.enabled;

const refuse = (code: ErrorCode, message: string) => ({ refusal: { code, message } });
