import { randomUUID } from "node:crypto";
import {
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
import { createDeployTarget, findDeployTarget, linkOnce } from "../deploy/project.ts";
import { rehearse, renderRehearsal } from "../deploy/rehearse.ts";
import { listSource, type PackedSource, uploadSource } from "../deploy/source.ts";
import { tellPipeline } from "../deploy/step-output.ts";
import type { Entry } from "../deploy/tree.ts";
import { waitForDeployment } from "../deploy/wait.ts";
import { CliError, fromDeployError } from "../errors.ts";
import { formatDuration } from "../format.ts";
import { getManifest } from "../manifest-file.ts";

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
    // Looked at before anything is made on the platform: most of what can be wrong is wrong here.
    const entries = isOciManifest(manifest) ? null : await listSource(context, place, manifest);
    const target =
      (await findDeployTarget(context, api, manifest, project)) ??
      (await createDeployTarget(context, api, manifest, place));
    context.onInterrupt("Whether a deployment began is not known. See with `svc status`");
    const { reply, ...packed } = await trigger(context, api, target.id, manifest, entries);
    const id = reply.deploymentId;
    context.onInterrupt(`The deployment goes on without you. Follow it with \`svc logs ${id} --follow\``);
    await linkOnce(place, { ...reply.project, name: manifestName(manifest) });
    context.terminal.step(`Deployment ${id} to ${reply.channel} is queued`);
    const facts = { channel: reply.channel, slug: reply.project.slug, project: reply.project };
    if (!wait) {
      await report(context, api, reply, null);
      const { release, artifact } = reply;
      const deployment = { id, status: "queued", release };
      return { url: reply.url, ...facts, deployment, queued: true, ...packed, ...(artifact && { artifact }) };
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
      ...(artifact && { artifact }),
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

/** Queues the deployment: an upload of `entries`, or one JSON call for an image, which has none. */
async function trigger(
  context: Context,
  api: Api,
  projectId: string,
  manifest: Manifest,
  entries: readonly Entry[] | null,
): Promise<{ reply: CreateDeploymentReply; source?: PackedSource }> {
  const metadata = deployFacts(context.env);
  if (entries !== null) return uploadSource(context, api, projectId, { entries, manifest, metadata });
  const reply = await api.post(`/projects/${projectId}/deployments`, createDeploymentReply, {
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
