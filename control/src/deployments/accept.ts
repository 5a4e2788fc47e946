import { type DeploymentMetadata, isOciManifest, type Manifest, releaseOf, sourceOf } from "@svc/proto";
import { sql } from "kysely";
import { planOfUser } from "../accounts/plan.ts";
import { lockUser } from "../accounts/store.ts";
import type { Caller } from "../auth/caller.ts";
import type { Config } from "../config.ts";
import type { Db } from "../db/pool.ts";
import type { Project } from "../db/tables.ts";
import { readEnv } from "../env/store.ts";
import { ApiError } from "../http/errors.ts";
import { getProject } from "../projects/store.ts";
import { hostUrl } from "../projects/view.ts";
import type { Secrets } from "../secrets.ts";
import { envAad, fileEnvAad } from "../tasks/assignment.ts";
import { enqueue } from "../work/queue.ts";
import { type Admission, projectRefusal, type Refusal } from "./admission.ts";
import { claimHost } from "./hosts.ts";
import { insertEvent } from "./store.ts";

const windowSeconds = 3600;

export const refuse = ({ code, message }: Refusal, closesConnection = false): never => {
  throw new ApiError(code, { ...(message !== undefined && { message }), closesConnection });
};

/**
 * Throws RATE_LIMITED when the user has made `max` deployments within the last hour, in all their projects;
 * tells in how many seconds the next one may come. Exact while the user's row is locked.
 */
export async function checkDeployRate(
  db: Db,
  userId: string,
  max: number,
  { closesConnection = false } = {},
): Promise<void> {
  const recent = () =>
    db
      .selectFrom("deployment")
      .innerJoin("project", "project.id", "deployment.project_id")
      .where("project.owner_id", "=", userId)
      .where("deployment.created_at", ">", sql<Date>`now() - ${windowSeconds} * interval '1 second'`);
  // The one that has to leave the window before another fits in.
  const blocking =
    max === 0
      ? { seconds: windowSeconds }
      : await recent()
          .select(
            sql<number>`ceil(extract(epoch from deployment.created_at - now()) + ${windowSeconds})::int`.as("seconds"),
          )
          .orderBy("deployment.created_at", "desc")
          .offset(max - 1)
          .limit(1)
          .executeTakeFirst();
  if (blocking === undefined) return;
  throw new ApiError("RATE_LIMITED", {
    message: `The plan allows ${max} deployments per hour.`,
    retryAfterSeconds: Math.max(1, blocking.seconds),
    closesConnection,
  });
}

export interface NewDeployment {
  id: string;
  manifest: Manifest;
  metadata: DeploymentMetadata;
  admission: Admission;
  /** The archive in the registry; null for images. */
  source: { repository: string; digest: string; sizeBytes: number } | null;
  /** Variables of the env files that came with the source; the project's own go over them. */
  fileEnv: Readonly<Record<string, string>>;
}

/**
 * Stores a deployment with all that it needs to run by itself: host, environment as it is now, timeline and
 * work, in the caller's transaction. What was checked before the upload is checked again under lock.
 */
export async function acceptDeployment(
  tx: Db,
  deps: { config: Pick<Config, "content">; secrets: Secrets },
  caller: Caller,
  projectId: string,
  { id, manifest, metadata, admission, source, fileEnv }: NewDeployment,
): Promise<{ project: Project; url: string }> {
  await lockUser(tx, caller.userId);
  const project = await getProject(tx, caller, projectId, { lock: true });
  const plan = await planOfUser(tx, caller.userId);
  const refusal = projectRefusal(
    { type: project.type, deployMode: project.deploy_mode, suspended: project.suspended_at !== null },
    caller,
    plan,
  );
  if (refusal !== null) refuse(refusal);
  await checkDeployRate(tx, caller.userId, plan.max_deploys_per_hour);

  const host = await claimHost(tx, project, admission, deps.config.content.domain);
  const url = hostUrl(host, deps.config.content);
  const env = { ...fileEnv, ...(await readEnv(tx, deps.secrets, project.id)) };
  const provenance = sourceOf(manifest);
  await tx
    .insertInto("deployment")
    .values({
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
      requested_reference: isOciManifest(manifest) ? manifest.image.reference : null,
      env: deps.secrets.seal(Buffer.from(JSON.stringify(env)), envAad(id)),
      file_env: deps.secrets.seal(Buffer.from(JSON.stringify(fileEnv)), fileEnvAad(id)),
      release_status: releaseOf(manifest).configured ? "pending" : "not_configured",
      created_by_token: caller.tokenId,
      phase_started_at: sql<Date>`now()`,
    })
    .execute();
  await insertEvent(tx, { deploymentId: id, phase: "queued", to: "queued" });
  await enqueue(tx, { kind: "deploy", key: project.id, payload: { deploymentId: id } });
  return { project, url };
}
