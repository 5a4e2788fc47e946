import {
  type Channel,
  type CreateDeploymentReply,
  createDeploymentReply,
  type DeploymentMetadata,
  idParams,
  isOciManifest,
  type Manifest,
  type OciDeploymentInput,
  ociDeploymentInput,
  plural,
  releaseOf,
  storedManifestSchema,
  validationCode,
  validationMessage,
} from "@svc/proto";
import { announcedPushes } from "../../../fleet/artifacts/push.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { preserveManifest } from "../../../fleet/images/preserve.ts";
import { maxUnpackedMb } from "../../../fleet/tasks/kinds/build.ts";
import { recordAudit } from "../../../http/audit.ts";
import type { Caller } from "../../../http/caller.ts";
import type { Call } from "../../../http/endpoint.ts";
import { ApiError } from "../../../http/errors.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Plan, Project } from "../../../stores/db/tables.ts";
import type { TenantContext } from "../../context.ts";
import { endpoint } from "../../endpoint.ts";
import { listEnvNames } from "../../env/store.ts";
import { getProject } from "../../projects/store.ts";
import {
  checkDeployRate,
  findDatabases,
  insertDeployment,
  type NewDeployment,
  type OpenProject,
  openProject,
  refuse,
  requireStorage,
} from "../create/accept.ts";
import { type Admission, admit, type DatabaseFacts, factsOf, projectRefusal } from "../create/admission.ts";
import { stoppedWarning } from "../lifecycle/request.ts";
import { clientGone } from "../upload/body.ts";
import { type CheckUpload, receiveSource } from "../upload/upload.ts";
import { acceptedView } from "../view.ts";

const mebibyte = 1024 * 1024;

export const createDeployment = endpoint({
  method: "POST",
  path: "/projects/:id/deployments",
  access: { scope: "deploy", orCiKey: true },
  summary: "Deploy: an archive of the source, or the reference of an image.",
  params: idParams,
  body: ociDeploymentInput,
  upload: true,
  status: 202,
  reply: createDeploymentReply,
  errors: [
    "SUSPENDED",
    "EMAIL_NOT_VERIFIED",
    "PLAN_FEATURE_UNAVAILABLE",
    "PREVIEW_UNAVAILABLE",
    "DATABASE_NOT_READY",
    "DATABASE_ENGINE_CONFLICT",
    // Scheduled jobs and storage; variables of env files.
    "QUOTA_EXCEEDED",
    { code: "QUOTA_EXCEEDED", status: 422 },
    "OCI_REFERENCE_INVALID",
    "IDEMPOTENCY_CONFLICT",
  ],
  async handle(context, call) {
    const { db } = context;
    const { caller, params, request } = call;
    const isUpload = request.isMultipart();
    const project = await getProject(db, caller, params.id);
    const plan = await planOfUser(db, caller.userId);
    const refusal = projectRefusal(factsOf(project), caller, plan);
    if (refusal !== null) refuse(refusal, isUpload);
    if (isUpload === (project.type === "ociimage")) {
      const wanted = isUpload ? "application/json" : "multipart/form-data";
      throw new ApiError("VALIDATION", {
        message: `Projects of type ${project.type} are deployed with ${wanted}.`,
        closesConnection: isUpload,
      });
    }
    // A repeated request must reach the answer to the first; it is counted under lock further on.
    if (call.idempotencyKey === null) {
      await checkDeployRate(db, caller.userId, plan.max_deploys_per_hour, { closesConnection: isUpload });
      await requireStorage(context, project.id, plan, null, { closesConnection: isUpload });
    }
    return isUpload ? deploySource(context, call, project, plan) : deployImage(context, call, project, plan);
  },
});

type CreateCall = Pick<
  Call<object, typeof idParams, undefined, undefined>,
  "caller" | "address" | "idempotencyKey" | "request"
> & { caller: Caller };

/** Where the manifest may go. Throws what stands against it. */
function admitted(
  manifest: Manifest,
  metadata: DeploymentMetadata,
  { project, plan }: OpenProject,
  databases: DatabaseFacts,
): Admission {
  const admission = admit(manifest, metadata, { project: factsOf(project), plan, databases });
  return "refusal" in admission ? refuse(admission.refusal) : admission;
}

async function deploySource(context: TenantContext, call: CreateCall, project: Project, plan: Plan) {
  const { random, db, registry, uploads } = context;
  const repository = repositories.source(project.id);
  using _slot = uploads.take(call.caller.userId);
  using pace = uploads.watch(call.request.raw);
  const arrived = new AbortController();
  try {
    const target = {
      registry: announcedPushes({ random, db, registry }, project.id),
      repository,
      maxBytes: plan.max_upload_mb * mebibyte,
      maxUnpackedBytes: maxUnpackedMb(plan) * mebibyte,
      signal: AbortSignal.any([clientGone(call.request, arrived.signal), pace.signal]),
    };
    const check: CheckUpload = async ({ manifest, metadata = {} }, fileEnv) => {
      const { channel } = admitted(manifest, metadata, { project, plan }, await findDatabases(db, project));
      if (fileEnv !== null) await requireEnvRoom(db, project.id, channel, plan, fileEnv);
    };
    const received = await receiveSource(call.request, target, check);
    const { manifest, metadata = {}, forceBuild = false, fileEnv, warnings, digest, sizeBytes } = received;
    return await accept(context, call, project.id, {
      manifest,
      metadata,
      source: { repository, digest, sizeBytes },
      forceBuild,
      fileEnv,
      warnings,
    });
  } finally {
    arrived.abort();
  }
}

async function deployImage(context: TenantContext, call: CreateCall, project: Project, plan: Plan) {
  const body = readImageBody(call.request.body, context.references);
  const manifest = await preserved(context.db, project.id, body, call.request.body);
  const metadata = body.metadata ?? {};
  admitted(manifest, metadata, { project, plan }, await findDatabases(context.db, project));
  const problem = await context.references.problem(manifest.image.reference, project.owner_id);
  if (problem !== null) throw new ApiError("OCI_REFERENCE_INVALID", { message: problem });
  return accept(context, call, project.id, { manifest, metadata, source: null, fileEnv: {} });
}

/** Throws everything that is wrong at once, also with the registry of a reference that cannot be read otherwise. */
function readImageBody(value: unknown, references: TenantContext["references"]): OciDeploymentInput {
  const result = ociDeploymentInput.safeParse(value);
  if (result.success) return result.data;
  const { issues } = result.error;
  const hosts = issues.flatMap((issue) => (issue.code === "custom" ? registryOf(issue.params) : []));
  const problems = hosts.flatMap((host) => references.hostProblem(host) ?? []);
  throw new ApiError(validationCode(issues), {
    message:
      value === undefined
        ? "The body is missing."
        : [validationMessage(issues, ociDeploymentInput), ...problems].join(" "),
  });
}

const registryOf = (params: Record<string, unknown> = {}): string[] =>
  typeof params["registry"] === "string" ? [params["registry"]] : [];

/** The manifest over that of an earlier deployment of the project, when the caller names one; `sent` is as it came. */
async function preserved(
  db: Db,
  projectId: string,
  { manifest, preserveManifestFromDeploymentId: from }: OciDeploymentInput,
  sent: unknown,
) {
  if (from === undefined) return manifest;
  const earlier = await db
    .selectFrom("deployment")
    .select("manifest")
    .where("id", "=", from)
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  if (earlier === undefined) {
    throw new ApiError("VALIDATION", {
      message: "preserveManifestFromDeploymentId: is not a deployment of this project",
    });
  }
  const { manifest: written } = sent as { manifest: Record<string, unknown> };
  const stored = storedManifestSchema.parse(earlier.manifest);
  if (!isOciManifest(stored)) throw new Error("a project of images has a manifest of another kind");
  return preserveManifest(written, stored);
}

/** Variables that come in files count like the project's own, a name that is in both once. Throws QUOTA_EXCEEDED. */
async function requireEnvRoom(
  db: Db,
  projectId: string,
  channel: Channel,
  { max_env_vars: max }: Plan,
  fileEnv: Readonly<Record<string, string>>,
): Promise<void> {
  const names = Object.keys(fileEnv);
  if (names.length === 0) return;
  const { base, overlays } = await listEnvNames(db, projectId);
  const count = new Set([...names, ...base, ...overlays[channel]]).size;
  if (count <= max) return;
  throw new ApiError("QUOTA_EXCEEDED", {
    status: 422,
    message: `The plan allows ${plural(max, "variable")} per project, and with those of env.files there would be ${count}.`,
  });
}

/** Stores the deployment once per Idempotency-Key, and says what was accepted. */
function accept(
  { clock, random, config, secrets, createOnce }: TenantContext,
  { caller, address, idempotencyKey }: CreateCall,
  projectId: string,
  accepted: Omit<NewDeployment, "id" | "admission" | "databases">,
) {
  const { manifest, metadata, source, forceBuild = false } = accepted;
  const request = [
    ...["POST /deployments", projectId, manifest, metadata, source?.digest ?? null],
    // Told only where it is asked for: a request that came to a control of before is the same one.
    ...(forceBuild ? ["forceBuild"] : []),
  ];
  return createOnce(
    { caller, idempotencyKey, request, status: 202 },
    async (tx): Promise<Omit<CreateDeploymentReply, "ok">> => {
      const id = random.uuid();
      // All of it again, now that nobody can change the project any more: its source may have come for minutes.
      const open = await openProject(tx, caller, projectId);
      const databases = await findDatabases(tx, open.project);
      const admission = admitted(manifest, metadata, open, databases);
      const { project, url } = await insertDeployment(tx, { clock, config, secrets }, caller, open, {
        ...{ id, ...accepted, admission, databases },
      });
      await requireEnvRoom(tx, projectId, admission.channel, open.plan, accepted.fileEnv);
      await recordAudit(tx, {
        caller,
        address,
        action: "deployment.create",
        target: id,
        detail: { projectId, channel: admission.channel },
      });
      const { configured } = releaseOf(manifest);
      const stopped = admission.channel === "production" ? await stoppedWarning(tx, projectId) : null;
      const warnings = [...(accepted.warnings ?? []), ...(stopped === null ? [] : [stopped])];
      return {
        deploymentId: id,
        channel: admission.channel,
        url,
        project: { id: project.id, slug: project.slug, type: project.type },
        ...acceptedView(manifest),
        release: {
          configured,
          status: configured ? "pending" : "not_configured",
          startedAt: null,
          finishedAt: null,
          exitCode: null,
          error: null,
          skippedReason: null,
        },
        ...(warnings.length > 0 && { warnings }),
      };
    },
  );
}
