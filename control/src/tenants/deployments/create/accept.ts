import { type DeploymentMetadata, isOciManifest, type Manifest, plural, releaseOf, sourceOf } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { type Insertable, type InsertObject, sql } from "kysely";
import { storageProblem } from "../../../fleet/artifacts/storage-limit.ts";
import { databaseVariable, listReadyBranches } from "../../../fleet/databases/ready.ts";
import { envAad, fileEnvAad } from "../../../fleet/tasks/environment.ts";
import type { Caller } from "../../../http/caller.ts";
import { ApiError } from "../../../http/errors.ts";
import { lockCaller } from "../../../identity/accounts/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Config } from "../../../settings/settings.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Database, Deployment, DeploymentTable, Plan, Project } from "../../../stores/db/tables.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { enqueue } from "../../../stores/work/queue.ts";
import { layered } from "../../env/rules.ts";
import { readLayers } from "../../env/store.ts";
import { claimHost } from "../../hosts/hosts.ts";
import { getProject } from "../../projects/store.ts";
import { hostUrl } from "../../projects/view.ts";
import { skippedByRollback } from "../redeploy/redeploy.ts";
import { addWarnings } from "../store.ts";
import { type Admission, type DatabaseFacts, factsOf, projectRefusal, type Refusal } from "./admission.ts";

const windowSeconds = 3600;

const overriddenWarning = `The variable ${databaseVariable} of the project is not used: the channel has a managed database, and the platform sets it.`;

/** What a deployment of the project is to know of its databases. Exact while the project is locked. */
export async function findDatabases(db: Db, project: Pick<Project, "id" | "db_engine">): Promise<DatabaseFacts> {
  const branches = await listReadyBranches(db, [project.id]);
  return { engine: project.db_engine, ready: branches.map(({ channel }) => channel) };
}

export const refuse = ({ code, message, status }: Refusal, closesConnection = false): never => {
  throw new ApiError(code, {
    ...(message !== undefined && { message }),
    ...(status !== undefined && { status }),
    closesConnection,
  });
};

/**
 * Throws RATE_LIMITED when the user has had `max` deployments accepted within the last hour, in all their projects,
 * whatever became of them; tells in how many seconds the next one may come. Exact while the user's row is locked.
 */
export async function checkDeployRate(
  db: Db,
  userId: string,
  max: number,
  { closesConnection = false } = {},
): Promise<void> {
  const recent = () =>
    db
      .selectFrom("accepted_deploy")
      .where("user_id", "=", userId)
      .where("at", ">", sql<Date>`now() - ${windowSeconds} * interval '1 second'`);
  // The one that has to leave the window before another fits in.
  const blocking =
    max === 0
      ? { seconds: windowSeconds }
      : await recent()
          .select(sql<number>`ceil(extract(epoch from at - now()) + ${windowSeconds})::int`.as("seconds"))
          .orderBy("at", "desc")
          .offset(max - 1)
          .limit(1)
          .executeTakeFirst();
  if (blocking === undefined) return;
  throw new ApiError("RATE_LIMITED", {
    message: `The plan allows ${plural(max, "deployment")} per hour.`,
    // Whoever waited for the lock began, by which `now()` goes, before what was accepted meanwhile.
    retryAfterSeconds: Math.min(Math.max(1, blocking.seconds), windowSeconds),
    closesConnection,
  });
}

/** Throws QUOTA_EXCEEDED when the project keeps more than the plan allows, with the new source if there is one. */
export async function requireStorage(
  stores: { clock: Clock; db: Db },
  projectId: string,
  plan: Pick<Plan, "storage_mb">,
  source: NewDeployment["source"],
  { closesConnection = false } = {},
): Promise<void> {
  const message = await storageProblem(stores, projectId, plan, source);
  if (message !== null) throw new ApiError("QUOTA_EXCEEDED", { message, closesConnection });
}

export interface NewDeployment {
  id: string;
  manifest: Manifest;
  metadata: DeploymentMetadata;
  admission: Admission;
  /** The archive in the registry; null for images, and where an artifact is taken over. */
  source: { repository: string; digest: string; sizeBytes: number } | null;
  /** It is built although nothing may have changed. */
  forceBuild?: boolean;
  /** Variables of the env files that came with the source; the project's own and its channel's go over them. */
  fileEnv: Readonly<Record<string, string>>;
  /** Why it may not be what was meant, as far as that is known by now. */
  warnings?: readonly string[];
  /** Whose artifact it takes over; absent when its own is to be built, or its image to be looked up. */
  reuse?: Reuse;
  /** As they were found with the project locked. */
  databases: DatabaseFacts;
}

export interface Reuse {
  origin: NonNullable<Deployment["origin"]>;
  of: Deployment;
}

export interface AcceptDeps {
  clock: Clock;
  config: Pick<Config, "content">;
  secrets: Secrets;
}

/** The project and what its owner may do, held until the transaction ends. */
export interface OpenProject {
  project: Project;
  plan: Plan;
}

/**
 * Locks the user and the project for a new deployment. Throws NOT_FOUND, and what stands against any deployment of
 * the project.
 */
export async function openProject(tx: Db, caller: Caller, projectId: string): Promise<OpenProject> {
  await lockCaller(tx, caller);
  const project = await getProject(tx, caller, projectId, { lock: true });
  const plan = await planOfUser(tx, caller.userId);
  const refusal = projectRefusal(factsOf(project), caller, plan);
  if (refusal !== null) refuse(refusal);
  return { project, plan };
}

/**
 * Stores a deployment with all that it needs to run by itself: host, environment as it is now, timeline and
 * work, in the caller's transaction, which has admitted it under lock. Throws RATE_LIMITED and QUOTA_EXCEEDED.
 */
export async function insertDeployment(
  tx: Db,
  { clock, config, secrets }: AcceptDeps,
  caller: Caller,
  { project, plan }: OpenProject,
  {
    id,
    manifest,
    metadata,
    admission,
    source,
    forceBuild = false,
    fileEnv,
    warnings = [],
    reuse,
    databases,
  }: NewDeployment,
): Promise<{ project: Project; url: string }> {
  // Going back is what people do when something is broken: it counts, and is never refused for the count.
  if (reuse?.origin !== "rollback") await checkDeployRate(tx, caller.userId, plan.max_deploys_per_hour);
  // What is taken over is kept already.
  if (reuse === undefined) await requireStorage({ clock, db: tx }, project.id, plan, source);
  const host = await claimHost(tx, project, admission, config.content.domain);
  const url = hostUrl(host, config.content);
  const { base, overlay } = await readLayers(tx, secrets, project.id, admission.channel);
  const env = layered(fileEnv, base, overlay);
  const provenance = sourceOf(manifest);
  const row: InsertObject<Database, "deployment"> = {
    id,
    project_id: project.id,
    channel: admission.channel,
    pr_number: admission.prNumber,
    url,
    manifest: JSON.stringify(manifest),
    trigger: metadata.trigger ?? null,
    git_sha: metadata.gitSha ?? null,
    git_ref: metadata.gitRef ?? null,
    git_repository: metadata.gitRepository ?? null,
    git_pr_number: metadata.gitPrNumber ?? null,
    root_directory: provenance?.rootDirectory ?? null,
    manifest_path: provenance?.manifestPath ?? null,
    watch_paths: provenance?.watchPaths ?? null,
    source_size: source?.sizeBytes ?? null,
    source_repository: source?.repository ?? null,
    source_digest: source?.digest ?? null,
    force_build: forceBuild,
    requested_reference: isOciManifest(manifest) ? manifest.image.reference : null,
    env: secrets.seal(Buffer.from(JSON.stringify(env)), envAad(id)),
    file_env: secrets.seal(Buffer.from(JSON.stringify(fileEnv)), fileEnvAad(id)),
    release_status: releaseOf(manifest).configured ? "pending" : "not_configured",
    created_by_token: caller.tokenId,
    phase_started_at: sql<Date>`now()`,
    ...(reuse !== undefined && reusedColumns(reuse)),
  };
  const detail = reuse === undefined ? null : `${reuse.origin} of ${reuse.of.id}`;
  await tx
    .with("added", (of) => of.insertInto("deployment").values(row))
    .with("counted", (of) => of.insertInto("accepted_deploy").values({ deployment_id: id, user_id: caller.userId }))
    .insertInto("deployment_event")
    .values({ deployment_id: id, phase: "queued", to_status: "queued", detail })
    .execute();
  const isOverridden = databases.ready.includes(admission.channel) && Object.hasOwn(env, databaseVariable);
  await addWarnings(tx, { projectId: project.id, deploymentId: id }, [
    ...warnings,
    ...(isOverridden ? [overriddenWarning] : []),
  ]);
  await enqueue(tx, { kind: "deploy", key: project.id, payload: { deploymentId: id } });
  return { project, url };
}

/**
 * With its artifact known from the start, a deployment is never built. It has no archive of its own: only the size
 * of the one that the artifact was made of is told.
 */
const reusedColumns = ({ origin, of }: Reuse): Partial<Insertable<DeploymentTable>> => ({
  origin,
  origin_deployment_id: of.id,
  source_size: of.source_size,
  artifact_kind: of.artifact_kind,
  artifact_repository: of.artifact_repository,
  artifact_digest: of.artifact_digest,
  artifact_size: of.artifact_size,
  artifact_os: of.artifact_os,
  artifact_architecture: of.artifact_architecture,
  image_registry: of.image_registry,
  // What a release command changed is not taken back by running an older one.
  ...(origin === "rollback" && { release_status: "skipped" as const, release_skipped_reason: skippedByRollback }),
});
