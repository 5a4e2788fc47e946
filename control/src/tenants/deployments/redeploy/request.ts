import { storedManifestSchema } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { fileEnvAad } from "../../../fleet/tasks/environment.ts";
import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import type { HostAddress } from "../../hosts/address.ts";
import { type AcceptDeps, findDatabases, insertDeployment, openProject, refuse } from "../create/accept.ts";
import { readmit } from "../create/admission.ts";
import {
  addressOf,
  attributionOf,
  manifestFor,
  type RedeployAction,
  type RedeploySource,
  sourceRefusal,
} from "./redeploy.ts";

/** Somebody waits for the answer, and a registry that is well answers at once. */
const registryMs = 8_000;

/**
 * Whether what a deployment ran can be run again. An image of a foreign registry is not looked up: nodes may still
 * have it, and a registry that is down must not keep anybody from going back. Its digest is fixed, so what starts is
 * what ran, or nothing does.
 */
export async function findArtifact(
  clock: Clock,
  registry: Pick<Registry, "getManifest">,
  deployment: Pick<Deployment, "artifact_repository" | "artifact_digest" | "image_registry">,
): Promise<RedeploySource["artifact"]> {
  const { artifact_repository: repository, artifact_digest: digest, image_registry: foreign } = deployment;
  if (repository === null || digest === null) return "gone";
  if (foreign !== null) return "there";
  const look = registry.getManifest(repository, digest).then(
    () => "there" as const,
    (error: unknown) => {
      if (!(error instanceof RegistryError)) throw error;
      return error.code === "ARTIFACT_REGISTRY_UNAVAILABLE" ? ("unknown" as const) : ("gone" as const);
    },
  );
  return within(clock, registryMs, look, () => "unknown" as const);
}

/**
 * Makes a new deployment of `source`'s artifact in the caller's transaction: back on the source's own channel, or on
 * production. `artifact` is what `findArtifact` said of it. The user, the project and the source are locked, in this
 * order; artifacts are deleted under the project's lock too, so what is accepted here stays referenced.
 */
export async function requestRedeploy(
  tx: Db,
  deps: AcceptDeps,
  caller: Caller,
  action: RedeployAction,
  {
    id,
    source,
    artifact,
  }: { id: string; source: Pick<Deployment, "id" | "project_id">; artifact: RedeploySource["artifact"] },
): Promise<{ address: HostAddress; url: string }> {
  const open = await openProject(tx, caller, source.project_id);
  const of = await tx.selectFrom("deployment").selectAll().where("id", "=", source.id).forUpdate().executeTakeFirst();
  if (of === undefined) throw new Refused("NOT_FOUND");
  const facts = {
    type: open.project.type,
    channel: of.channel,
    status: of.status,
    removing: of.removing_at !== null,
    // Whoever deletes artifacts says so under the project's lock.
    artifact: of.artifact_removed_at === null ? artifact : ("gone" as const),
  };
  const address = addressOf(action, { channel: of.channel, prNumber: of.pr_number });
  const manifest = manifestFor(action, storedManifestSchema.parse(of.manifest));
  const databases = await findDatabases(tx, open.project);
  const refusal = sourceRefusal(action, facts) ?? readmit(manifest, address.channel, { plan: open.plan, databases });
  if (refusal !== null) refuse(refusal);
  const { url } = await insertDeployment(tx, deps, caller, open, {
    id,
    manifest,
    metadata: attributionOf(action, of),
    admission: address,
    source: null,
    fileEnv: openFileEnv(deps.secrets, of),
    reuse: { origin: action, of },
    databases,
  });
  return { address, url };
}

/** Variables of the env files that were packed with the source; they travel with what was made of it. */
function openFileEnv(secrets: Secrets, { id, file_env }: Pick<Deployment, "id" | "file_env">): Record<string, string> {
  if (file_env === null) return {};
  return JSON.parse(secrets.open(file_env, fileEnvAad(id)).toString("utf8")) as Record<string, string>;
}
