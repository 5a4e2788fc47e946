import { randomUUID } from "node:crypto";
import {
  type Channel,
  type CreateDeploymentReply,
  createDeploymentReply,
  type Deployment,
  isOciManifest,
  isSettled,
  type Manifest,
  manifestName,
} from "@svc/proto";
import type { Api } from "../api.ts";
import { command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { deployFacts } from "../deploy/ci.ts";
import { createDeployTarget, type DeployTarget, findDeployTarget, linkOnce } from "../deploy/project.ts";
import { listSource, measureSource, type PackedSource, uploadSource } from "../deploy/source.ts";
import { tellPipeline } from "../deploy/step-output.ts";
import { waitForDeployment } from "../deploy/wait.ts";
import { CliError, fromDeployError } from "../errors.ts";
import { formatBytes, formatDuration, plural } from "../format.ts";
import { getManifest, type ManifestPlace } from "../manifest-file.ts";

export const deploy = command({
  name: "deploy",
  summary: "Deploy this directory, or the image that the manifest names",
  details:
    "The first deploy makes the project and links this directory to it (.svc/state.json). What .svcignore names is left out, or what .gitignore names when there is none; .git, node_modules and .env files always are.",
  flags: {
    project: flag.project,
    prod: flag.toggle("--prod", "To the production channel, whatever the manifest and the project say"),
    preview: flag.toggle("--preview", "To the preview channel, likewise"),
    wait: flag.toggle("--no-wait", "Return once the deployment is queued"),
    dryRun: flag.toggle("--dry-run", "Show what would be packed, and for which channel; change nothing"),
  },
  examples: ["svc deploy", "svc deploy --prod", "svc deploy --preview --no-wait --json", "svc deploy --dry-run"],
  async run(context, { project, prod, preview, wait, dryRun }) {
    if (prod && preview)
      throw new CliError("CLI_INVALID_USAGE", "--prod and --preview exclude each other", { hint: "Give one of them" });
    const place = await context.manifestPlace();
    const written = await getManifest(place);
    const manifest = withChannel(written, prod ? "production" : preview ? "preview" : undefined);
    if (dryRun) return rehearse(context, manifest, place, project);

    context.onInterrupt("Nothing was deployed. Start over with `svc deploy`");
    const startedAt = performance.now();
    const api = await context.api();
    const target =
      (await findDeployTarget(context, api, manifest, project)) ??
      (await createDeployTarget(context, api, manifest, place));
    const { reply, ...packed } = await trigger(context, api, manifest, place, target);
    const id = reply.deploymentId;
    context.onInterrupt(`The deployment goes on without you. Follow it with \`svc logs ${id} --follow\``);
    await linkOnce(place, { ...reply.project, name: manifestName(manifest) });
    context.terminal.step(`Deployment ${id} to ${reply.channel} is queued`);
    const facts = { channel: reply.channel, slug: reply.project.slug, project: reply.project };
    if (!wait) {
      await report(context, api, reply, null);
      const { release } = reply;
      return { url: reply.url, ...facts, deployment: { id, status: "queued", release }, queued: true, ...packed };
    }
    const ended = await waitForDeployment(context, api, id, { isOver: isSettled, narrate: true });
    await report(context, api, reply, ended);
    requireSuccess(context, ended);
    const { status, release, url, artifact } = ended;
    return {
      url,
      ...facts,
      deployment: { id, status, release },
      ...packed,
      ...(artifact === undefined ? {} : { artifact }),
      durationMs: Math.round(performance.now() - startedAt),
    };
  },
  render: (payload, { paint }) => {
    const done = paint("green", "✓");
    if ("dryRun" in payload) return renderRehearsal(payload);
    const where = `${payload.slug} to ${payload.channel}`;
    if ("queued" in payload)
      return `${done} Queued ${where}\n  ${payload.url}\n  Follow it with \`svc logs ${payload.deployment.id} --follow\``;
    return `${done} Deployed ${where} in ${formatDuration(payload.durationMs)}\n  ${paint("bold", payload.url)}`;
  },
});

/** The manifest with the channel that a flag forces. */
function withChannel(manifest: Manifest, channel: "production" | "preview" | undefined): Manifest {
  return channel === undefined ? manifest : { ...manifest, channel };
}

/** Queues the deployment: an upload for source projects, one JSON call for images. */
async function trigger(
  context: Context,
  api: Api,
  manifest: Manifest,
  place: ManifestPlace,
  { id }: DeployTarget,
): Promise<{ reply: CreateDeploymentReply; source?: PackedSource }> {
  const metadata = deployFacts(context.env);
  const advice = "Whether a deployment began is not known. See with `svc status`";
  if (!isOciManifest(manifest)) {
    const entries = await listSource(context, place, manifest);
    context.onInterrupt(advice);
    return uploadSource(context, api, id, { entries, manifest, metadata });
  }
  context.onInterrupt(advice);
  const reply = await api.post(`/projects/${id}/deployments`, createDeploymentReply, {
    body: { manifest, metadata },
    headers: { "idempotency-key": randomUUID() },
    failure: fromDeployError,
  });
  return { reply };
}

/** Tells a pipeline how the deploy ended; `ended` is null while it is only queued. */
async function report(
  context: Context,
  api: Api,
  reply: CreateDeploymentReply,
  ended: Deployment | null,
): Promise<void> {
  const id = reply.deploymentId;
  const { status, release } = ended ?? { status: "queued", release: reply.release };
  await tellPipeline(context, {
    deployment_id: id,
    channel: reply.channel,
    status,
    release_status: release.status,
    dashboard_url: `${api.apiUrl}/projects/${reply.project.id}/deployments/${id}`,
    ...(ended !== null && serves(ended) ? { url: ended.url } : {}),
  });
}

/** Whether the deployment reached its visitors, even if another has taken its place by now. */
const serves = ({ status }: Deployment): boolean => ["running", "superseded", "stopped"].includes(status);

function requireSuccess(context: Context, ended: Deployment): void {
  const { id, status, error } = ended;
  if (!serves(ended)) {
    const fallback = status === "canceled" ? "The deployment was canceled" : "The deployment failed";
    throw new CliError("DEPLOY_FAILED", error ?? fallback, { hint: `Read the whole log with \`svc logs ${id}\`` });
  }
  if (status !== "running") context.warn(`The deployment ran, but is ${status} by now`);
}

/** What a deploy would do, without changing anything here or there. */
async function rehearse(context: Context, manifest: Manifest, place: ManifestPlace, named: string | undefined) {
  const { channel, project } = await predict(context, manifest, named);
  const base = { dryRun: true as const, channel, project };
  if (isOciManifest(manifest)) return { ...base, image: { reference: manifest.image.reference } };
  const entries = await listSource(context, place, manifest);
  return { ...base, source: await measureSource(context, entries), paths: entries.map(({ path }) => path) };
}

type Prediction = { channel: Channel | null; project: { id: string; slug: string | null } | null };

/**
 * The channel and project that a deploy would have: what is forced, else the project's mode, which takes
 * a login to know. Null where that cannot be said now; a project of null may be one that is yet to be made.
 */
async function predict(context: Context, manifest: Manifest, named: string | undefined): Promise<Prediction> {
  try {
    const target = await findDeployTarget(context, await context.api(), manifest, named);
    const mode = target === null ? "auto" : target.deployMode;
    const byMode = mode === null ? null : mode === "preview" ? "preview" : "production";
    const project = target === null ? null : { id: target.id, slug: target.slug };
    return { channel: manifest.channel ?? byMode, project };
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    if (thrown.code !== "CLOUD_NOT_LOGGED_IN" && thrown.code !== "CLOUD_UNAVAILABLE") throw thrown;
    context.warn(`The project was not looked up: ${thrown.message}`);
    return { channel: manifest.channel ?? null, project: null };
  }
}

function renderRehearsal(payload: Awaited<ReturnType<typeof rehearse>>): string {
  const where = payload.channel === null ? "the channel that the project's deploy mode says" : payload.channel;
  const whom = payload.project === null ? "" : ` of ${payload.project.slug ?? payload.project.id}`;
  const head = `A deploy would go to ${where}${whom}`;
  if ("image" in payload) return `${head} and run ${payload.image.reference}`;
  const { files, bytes } = payload.source;
  return [...payload.paths, "", `${head} and pack ${plural(files, "file")}, ${formatBytes(bytes)}`].join("\n");
}
