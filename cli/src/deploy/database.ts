import { type Channel, envReply, isOciManifest, type Manifest } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { type Branch, createBranch, getBranch, nameOf, notReady } from "../database/branch.ts";
import { CliError } from "../errors.ts";
import { targetFacts } from "../target.ts";
import { predictChannel } from "./channel.ts";
import type { DeployTarget } from "./project.ts";

/**
 * Sees to it, before anything is uploaded, that a deploy whose manifest wants a database finds one that is ready. Makes
 * it where `mayCreate`; DATABASE_NOT_READY where there is none and the key may not make one. What a key may not even look
 * at the platform looks at itself, when the deployment begins.
 */
export async function ensureDatabase(
  context: Context,
  api: Api,
  { manifest, target, mayCreate }: { manifest: Manifest; target: DeployTarget; mayCreate: boolean },
): Promise<void> {
  if (isOciManifest(manifest) || !manifest.database.enabled) return;
  const channel = predictChannel(manifest, target);
  if (channel === null) return;
  const branch: Branch = { api, target, channel, project: targetFacts(target) };
  const found = await unlessForbidden(getBranch(branch));
  if (found === null) return;
  if (found.status !== "ready") await create(context, branch, { engine: manifest.database.engine, mayCreate, found });
  if (!target.isFirst) await warnOfOverridden(context, api, target.id, channel);
}

async function create(
  context: Context,
  branch: Branch,
  {
    engine,
    mayCreate,
    found,
  }: { engine: "postgres" | "mariadb"; mayCreate: boolean; found: { status: string | null; reason: string | null } },
): Promise<void> {
  const made = mayCreate ? await unlessForbidden(createBranch(context, branch, { engine, waits: true })) : null;
  if (made === null) throw notReady(branch, found);
  if (made.ready !== null) context.terminal.step(`Made ${nameOf(branch)} (${made.made.engine})`, "done");
}

/** A variable that a person set counts for nothing where there is a managed database, which may surprise. */
async function warnOfOverridden(context: Context, api: Api, projectId: string, channel: Channel): Promise<void> {
  const paths = [`/projects/${projectId}/env`, `/projects/${projectId}/env?channel=${channel}`];
  const found = await Promise.all(paths.map((path) => api.get(path, envReply).catch(nothing)));
  const isSet = found.some((reply) => reply !== null && Object.hasOwn(reply.vars, "DATABASE_URL"));
  if (isSet) context.warn("The project sets DATABASE_URL, too: the app gets that of its managed database instead");
}

/** Only a warning depends on it. */
function nothing(thrown: unknown): null {
  if (thrown instanceof CliError) return null;
  throw thrown;
}

function unlessForbidden<T>(asked: Promise<T>): Promise<T | null> {
  return asked.catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CLOUD_FORBIDDEN_SCOPE") return null;
    throw thrown;
  });
}
