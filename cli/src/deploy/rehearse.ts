import { type Channel, isOciManifest, type Manifest, plural, siteLabel } from "@svc/proto";
import type { Screen } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatBytes, table } from "../format.ts";
import type { ManifestPlace } from "../manifest-file.ts";
import { deployFacts } from "./ci.ts";
import { largestFiles, type Share } from "./largest.ts";
import { findDeployTarget } from "./project.ts";
import { listSource, measureSource, type PackedSource, packedSource } from "./source.ts";

/** A path that stays here, and why; a directory's ends in "/" and stands for all that is in it. */
interface LeftOut {
  path: string;
  why: string;
}

/** What a deploy would do. `image` of image projects, the rest of the others. */
export type Rehearsal = Prediction & { dryRun: true } & (
    | { image: { reference: string } }
    | { source: PackedSource; unpackedBytes: number; paths: string[]; largest: Share[]; ignored: LeftOut[] }
  );

const largestShown = 5;
const pathsShown = 40;
const ignoredShown = 20;

/** What a deploy would do, without changing anything here or there. */
export async function rehearse(
  context: Context,
  manifest: Manifest,
  place: ManifestPlace,
  named: string | undefined,
): Promise<Rehearsal> {
  const { channel, url, project } = await predict(context, manifest, named);
  const base = { dryRun: true as const, channel, url, project };
  if (isOciManifest(manifest)) return { ...base, image: { reference: manifest.image.reference } };
  const ignored: LeftOut[] = [];
  const entries = await listSource(context, place, manifest, (path, why) => ignored.push({ path, why }));
  const archive = await measureSource(context, entries);
  return {
    ...base,
    source: packedSource(archive),
    unpackedBytes: archive.unpackedBytes,
    paths: entries.map(({ path }) => path),
    largest: largestFiles(entries, largestShown),
    ignored: ignored.sort((left, right) => (left.path < right.path ? -1 : 1)),
  };
}

interface Prediction {
  channel: Channel | null;
  url: string | null;
  project: { id: string; slug: string | null } | null;
}

/**
 * The channel, address and project that a deploy would have: what is forced, else the project's mode, which takes
 * a login to know. Null where that cannot be said now; a project of null may be one that is yet to be made.
 */
async function predict(context: Context, manifest: Manifest, named: string | undefined): Promise<Prediction> {
  try {
    const target = await findDeployTarget(context, await context.api(), manifest, named);
    const mode = target === null ? "auto" : target.deployMode;
    const byMode = mode === null ? null : mode === "preview" ? "preview" : "production";
    const channel = manifest.channel ?? byMode;
    if (target === null) return { channel, url: null, project: null };
    const { id, slug, url } = target;
    const prNumber = deployFacts(context.env).gitPrNumber ?? null;
    const known = channel !== null && slug !== null && url !== null;
    return { channel, url: known ? predictUrl(url, { slug, channel, prNumber }) : null, project: { id, slug } };
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    if (thrown.code !== "CLOUD_NOT_LOGGED_IN" && thrown.code !== "CLOUD_UNAVAILABLE") throw thrown;
    context.warn(`The project was not looked up: ${thrown.message}`);
    return { channel: manifest.channel ?? null, url: null, project: null };
  }
}

/**
 * The address of another channel of the project whose production address is `productionUrl`; null when that is not
 * made of the slug, as with a domain of one's own. The platform may still choose another where two would collide.
 */
export function predictUrl(
  productionUrl: string,
  address: { slug: string; channel: Channel; prNumber: number | null },
): string | null {
  if (address.channel === "production") return productionUrl;
  const url = URL.parse(productionUrl);
  if (url === null || !url.hostname.startsWith(`${address.slug}.`)) return null;
  url.hostname = `${siteLabel(address)}${url.hostname.slice(address.slug.length)}`;
  return url.origin;
}

/** The same for a person. */
export function renderRehearsal(payload: Rehearsal, { paint }: Pick<Screen, "paint">): string {
  const where = payload.channel === null ? "the channel that the project's deploy mode says" : payload.channel;
  const whom = payload.project === null ? "" : ` of ${payload.project.slug ?? payload.project.id}`;
  const head = `A deploy would go to ${paint("bold", where)}${whom}`;
  const address = payload.url === null ? [] : [`  ${payload.url}`];
  if ("image" in payload) return [`${head} and run ${payload.image.reference}`, ...address].join("\n");
  const { files, bytes } = payload.source;
  const sizes = `${plural(files, "file")}, ${formatBytes(payload.unpackedBytes)}, packed ${formatBytes(bytes)}`;
  const paths = payload.paths.length <= pathsShown ? [title(paint, "Files"), ...indented(payload.paths)] : [];
  return [
    head,
    ...address,
    `  ${sizes}`,
    ...paths,
    ...(paths.length === 0 ? [title(paint, "Largest files"), ...payload.largest.map(shareLine)] : []),
    ...(payload.ignored.length === 0 ? [] : [title(paint, "Left out"), ...ignoredLines(payload.ignored, paint)]),
    ...(paths.length === 0 ? ["", paint("dim", "Every path: svc deploy --dry-run --json")] : []),
  ].join("\n");
}

const title = (paint: Screen["paint"], text: string): string => `\n${paint("dim", text)}`;
const indented = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);
const shareLine = ({ path, bytes }: Share): string => `  ${formatBytes(bytes).padStart(9)}  ${path}`;

function ignoredLines(ignored: readonly LeftOut[], paint: Screen["paint"]): string[] {
  const rows = ignored.slice(0, ignoredShown).map(({ path, why }) => [path, paint("dim", why)]);
  const shown = table(rows).split("\n");
  const rest = ignored.length - rows.length;
  return indented(rest === 0 ? shown : [...shown, paint("dim", `and ${rest} more`)]);
}
