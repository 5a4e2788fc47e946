import { type Channel, isOciManifest, type Manifest } from "@svc/proto";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatBytes, plural } from "../format.ts";
import type { ManifestPlace } from "../manifest-file.ts";
import { findDeployTarget } from "./project.ts";
import { listSource, measureSource, type PackedSource } from "./source.ts";

/** What a deploy would do. `paths` and `source` of source projects, `image` of the others. */
export type Rehearsal = Prediction & { dryRun: true } & (
    | { image: { reference: string } }
    | { source: PackedSource; paths: string[] }
  );

/** What a deploy would do, without changing anything here or there. */
export async function rehearse(
  context: Context,
  manifest: Manifest,
  place: ManifestPlace,
  named: string | undefined,
): Promise<Rehearsal> {
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

/** The same for a person. */
export function renderRehearsal(payload: Rehearsal): string {
  const where = payload.channel === null ? "the channel that the project's deploy mode says" : payload.channel;
  const whom = payload.project === null ? "" : ` of ${payload.project.slug ?? payload.project.id}`;
  const head = `A deploy would go to ${where}${whom}`;
  if ("image" in payload) return `${head} and run ${payload.image.reference}`;
  const { files, bytes } = payload.source;
  return [...payload.paths, "", `${head} and pack ${plural(files, "file")}, ${formatBytes(bytes)}`].join("\n");
}
