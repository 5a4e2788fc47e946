import { join, resolve } from "node:path";
import {
  type CreateDeploymentReply,
  createDeploymentReply,
  isOciManifest,
  type Manifest,
  manifestName,
} from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { deployFacts } from "../deploy/ci.ts";
import { ensureDatabase } from "../deploy/database.ts";
import { offerSlugLine } from "../deploy/keep-slug.ts";
import { awaitOutcome, reattachAdvice, reportQueued, unknownAdvice } from "../deploy/outcome.ts";
import { createDeployTarget, findDeployTarget, linkOnce } from "../deploy/project.ts";
import { rehearse, renderRehearsal } from "../deploy/rehearse.ts";
import { listSource, type PackedSource, packSource, uploadSource } from "../deploy/source.ts";
import type { Entry } from "../deploy/tree.ts";
import { CliError, fromDeployError } from "../errors.ts";
import { formatDuration } from "../format.ts";
import { offerCure } from "../link-trouble.ts";
import { getManifest, type ManifestPlace } from "../manifest-file.ts";
import { postOnce } from "../post-once.ts";

export const deploy = command({
  name: "deploy",
  summary: "Deploy this directory, or the image that the manifest names",
  details:
    "The first deploy makes the project and links this directory to it (.svc/state.json); `slug:` in the manifest leads other checkouts there. What .svcignore names is left out, or what .gitignore names when there is none; .git, node_modules and .env files always are.",
  flags: {
    project: flag.project,
    prod: flag.toggle("--prod", "To the production channel, whatever the manifest and the project say"),
    preview: flag.toggle("--preview", "To the preview channel, likewise"),
    wait: flag.toggle("--no-wait", "Return once the deployment is queued"),
    cache: flag.toggle("--no-cache", "Build it in any case, also when the same source was built before"),
    dryRun: flag.toggle("--dry-run", "Show what would be packed, and for which channel; change nothing"),
  },
  arguments: { directory: argument.optional("directory", "That of the manifest, which is deployed anyway") },
  examples: ["svc deploy", "svc deploy --prod", "svc deploy --preview --no-wait --json", "svc deploy --dry-run"],
  async run(context, { project: named, prod, preview, wait, cache, dryRun, directory }) {
    if (prod && preview)
      throw new CliError("CLI_INVALID_USAGE", "--prod and --preview exclude each other", { hint: "Give one of them" });
    const place = await context.manifestPlace();
    requireHere(context, place, directory);
    const written = await getManifest(place);
    if (!cache && isOciManifest(written))
      throw new CliError(
        "CLI_INVALID_USAGE",
        "An image that is there is not built, so --no-cache means nothing for it",
        {
          hint: "Leave it out",
        },
      );
    const manifest = withChannel(written, prod ? "production" : preview ? "preview" : undefined);
    if (dryRun) return rehearse(context, manifest, place, named);

    context.onInterrupt("Nothing was deployed. Start over with `svc deploy`");
    const startedAtMs = context.clock.steadyMs();
    const api = await context.api();
    // Looked at before anything is made on the platform: most of what can be wrong is wrong here.
    const entries = isOciManifest(manifest) ? null : await listSource(context, place, manifest);
    const target =
      (await findDeployTarget(context, api, manifest, named, (trouble) => offerCure(context, api, trouble))) ??
      (await createDeployTarget(context, api, manifest, place));
    await ensureDatabase(context, api, { manifest, target, mayCreate: named === undefined });
    const { reply, ...packed } = await trigger(context, api, target.id, {
      manifest,
      entries,
      forceBuild: !cache,
    }).catch((thrown: unknown) => {
      throw unknownOutcome(thrown);
    });
    const { channel, project } = reply;
    const accepted = { id: reply.deploymentId, channel, releaseStatus: reply.release.status, reuses: false };
    context.onInterrupt(reattachAdvice(accepted.id));
    await linkOnce(place, { ...project, name: manifestName(manifest) });
    context.terminal.step(`Deployment ${accepted.id} to ${channel} is queued`);
    for (const warning of reply.warnings ?? []) context.warn(warning);
    const facts = { channel, slug: project.slug, project };
    if (target.isFirst) context.lastly(() => offerSlugLine(context, place, manifest, project.slug));
    if (!wait) {
      await reportQueued(context, api, accepted);
      const { release, artifact } = reply;
      const deployment = { id: accepted.id, status: "queued", release };
      return { url: reply.url, ...facts, deployment, queued: true, ...packed, ...(artifact && { artifact }) };
    }
    const { id, status, release, url, artifact, warnings = [] } = await awaitOutcome(context, api, accepted);
    const told = new Set(reply.warnings);
    for (const warning of warnings) if (!told.has(warning)) context.warn(warning);
    const durationMs = Math.round(context.clock.steadyMs() - startedAtMs);
    const deployment = { id, status, release };
    return { url, ...facts, deployment, ...packed, ...(artifact && { artifact }), durationMs };
  },
  render: (payload, { paint }) => {
    const done = paint("green", "✓");
    if ("dryRun" in payload) return renderRehearsal(payload, { paint });
    const where = `${payload.slug} to ${payload.channel}`;
    if ("queued" in payload)
      return `${done} Queued ${where}\n  ${payload.url}\n  Follow it with \`svc logs -f ${payload.deployment.id}\``;
    if (payload.deployment.status !== "running")
      return `${done} Deployed ${where}, where it is ${payload.deployment.status} by now\n  ${payload.url}`;
    return `${done} Deployed ${where} in ${formatDuration(payload.durationMs)}\n  ${paint("bold", payload.url)}`;
  },
});

/** `svc deploy .` is what people type elsewhere; another directory is one of another manifest. */
function requireHere({ cwd }: Context, place: ManifestPlace, directory: string | undefined): void {
  if (directory === undefined || resolve(cwd, directory) === place.directory) return;
  throw new CliError(
    "CLI_INVALID_USAGE",
    `${directory} is not the directory of the manifest, which is what is deployed`,
    {
      hint: `Name the manifest of that directory: \`svc deploy --manifest ${join(directory, "svc.yml")}\``,
    },
  );
}

/** The manifest with the channel that a flag forces. */
function withChannel(manifest: Manifest, channel: "production" | "preview" | undefined): Manifest {
  return channel === undefined ? manifest : { ...manifest, channel };
}

/** Queues the deployment: an upload of `entries`, or one JSON call for an image, which has none. */
async function trigger(
  context: Context,
  api: Api,
  projectId: string,
  { manifest, entries, forceBuild }: { manifest: Manifest; entries: readonly Entry[] | null; forceBuild: boolean },
): Promise<{ reply: CreateDeploymentReply; source?: PackedSource }> {
  const metadata = deployFacts(context.env);
  if (entries !== null) {
    await using packed = await packSource(context, api, entries);
    return await uploadSource(context, api, projectId, packed, { manifest, metadata, forceBuild });
  }
  context.onInterrupt(unknownAdvice);
  const reply = await postOnce(context, api, `/projects/${projectId}/deployments`, createDeploymentReply, {
    body: { manifest, metadata },
    failure: fromDeployError,
  });
  return { reply };
}

/** An answer that never came may have been a yes. */
function unknownOutcome(thrown: unknown): unknown {
  if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_UNAVAILABLE") return thrown;
  const { code, message, cause, server } = thrown;
  const hint = "Whether a deployment began is not known: see with `svc status`, then run `svc deploy` again";
  return new CliError(code, message, { cause, hint, ...(server && { server }) });
}
