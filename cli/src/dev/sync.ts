import { createHash } from "node:crypto";
import { isOciManifest, type Manifest, manifestName, manifestType, type SourceManifest, usageReply } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { deployFacts } from "../deploy/ci.ts";
import { ensureDatabase } from "../deploy/database.ts";
import { awaitOutcome, reattachAdvice } from "../deploy/outcome.ts";
import { createDeployTarget, type DeployTarget, findDeployTarget, linkOnce } from "../deploy/project.ts";
import { listSource, type PackedSource, packSource, uploadSource } from "../deploy/source.ts";
import { CliError } from "../errors.ts";
import { getManifest, type ManifestPlace } from "../manifest-file.ts";

/** A manifest as it goes to the dev channel. */
type DevManifest = SourceManifest & { channel: "dev" };

/** What is sent to the dev channel, and for which project. */
export interface Synced {
  place: ManifestPlace;
  /** `--project`. */
  named: string | undefined;
}

/** What became of one sync; null when the dev channel has these very bytes already. */
export type SyncResult = { key: string; payload: SyncPayload } | null;
export type SyncPayload = Awaited<ReturnType<typeof send>>;

/**
 * Throws unless this directory can have a dev channel: MANIFEST_NOT_FOUND without a manifest, DEV_SYNC_UNAVAILABLE for a
 * project without code that runs, or a plan without it. A key that may not see the plan is let through.
 */
export async function requireDevSync(api: Api, place: ManifestPlace): Promise<SourceManifest> {
  const manifest = requireSource(await getManifest(place));
  const usage = await api.get("/account/usage", usageReply).catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CLOUD_FORBIDDEN_SCOPE") return null;
    throw thrown;
  });
  if (usage !== null && !usage.plan.devSyncEnabled) throw notInPlan("Your plan does not include the dev channel");
  return manifest;
}

function requireSource(manifest: Manifest): SourceManifest {
  if (!isOciManifest(manifest) && manifest.app.type !== "static") return manifest;
  const what = isOciManifest(manifest) ? "an image that is there" : "a static site";
  throw new CliError(
    "DEV_SYNC_UNAVAILABLE",
    `The manifest is for ${what} (${manifestType(manifest)}), which has no dev channel`,
    {
      hint: "Run `svc dev` without --sync, or deploy a preview with `svc deploy --preview`",
    },
  );
}

const notInPlan = (message: string, server?: CliError["server"]): CliError =>
  new CliError("DEV_SYNC_UNAVAILABLE", message, {
    hint: "Ask the administrator of this installation for a plan that includes it; `svc dev` without --sync needs none",
    ...(server && { server }),
  });

/** The project that is synced to; it is made where there is none and nobody named one. */
export const ensureTarget = async (
  context: Context,
  api: Api,
  manifest: SourceManifest,
  { place, named }: Synced,
): Promise<DeployTarget> =>
  (await findDeployTarget(context, api, manifest, named)) ?? (await createDeployTarget(context, api, manifest, place));

/**
 * Packs the tree and deploys it to the dev channel, unless these are the bytes that `known` is the key of; waits until it
 * serves. `onPacked` is told the key before anything is sent.
 */
export async function syncOnce(
  context: Context,
  api: Api,
  { place, named }: Synced,
  known: string | null,
  onPacked: (key: string) => void = () => {},
): Promise<SyncResult> {
  const manifest: DevManifest = { ...requireSource(await getManifest(place)), channel: "dev" };
  const entries = await listSource(context, place, manifest);
  await using packed = await packSource(context, api, entries);
  // The manifest is read by whoever deploys, and need not be in the archive.
  const key = createHash("sha256").update(packed.archive.digest).update(JSON.stringify(manifest)).digest("hex");
  if (key === known) return null;
  onPacked(key);
  const target = await ensureTarget(context, api, manifest, { place, named });
  await ensureDatabase(context, api, { manifest, target, mayCreate: named === undefined });
  const sent = uploadSource(context, api, target.id, packed, {
    ...{ manifest, metadata: deployFacts(context.env), forceBuild: false },
  });
  const accepted = await sent.catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.server?.code === "PLAN_FEATURE_UNAVAILABLE")
      throw notInPlan(thrown.message, thrown.server);
    throw thrown;
  });
  return { key, payload: await send(context, api, place, manifest, accepted) };
}

/** Watches what was accepted until it serves. */
async function send(
  context: Context,
  api: Api,
  place: ManifestPlace,
  manifest: DevManifest,
  { reply, source }: Awaited<ReturnType<typeof uploadSource>>,
) {
  const startedAtMs = context.clock.steadyMs();
  const { channel, project, deploymentId } = reply;
  context.onInterrupt(reattachAdvice(deploymentId));
  await linkOnce(place, { ...project, name: manifestName(manifest) });
  context.terminal.step(`Deployment ${deploymentId} to ${channel} is queued`);
  for (const warning of reply.warnings ?? []) context.warn(warning);
  const accepted = { id: deploymentId, channel, releaseStatus: reply.release.status, reuses: false };
  const { id, status, release, url, warnings = [] } = await awaitOutcome(context, api, accepted);
  const told = new Set(reply.warnings);
  for (const warning of warnings) if (!told.has(warning)) context.warn(warning);
  const packed: PackedSource = source;
  return {
    ...{ url, channel, slug: project.slug, project, deployment: { id, status, release }, source: packed },
    durationMs: Math.round(context.clock.steadyMs() - startedAtMs),
  };
}

/** How many deployments the plan leaves this hour; null where that cannot be seen. */
export async function deploysLeft(api: Api): Promise<{ left: number; max: number } | null> {
  try {
    const { plan, usage } = await api.get("/account/usage", usageReply);
    return { left: Math.max(0, plan.maxDeploysPerHour - usage.deploysLastHour), max: plan.maxDeploysPerHour };
  } catch (thrown) {
    if (thrown instanceof CliError) return null;
    throw thrown;
  }
}
