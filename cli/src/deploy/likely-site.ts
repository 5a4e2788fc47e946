import type { SourceManifest } from "@svc/proto";
import { leavesBuildOpen, packedSite } from "@svc/proto/packed-site";
import { isMap, isScalar, LineCounter, parseDocument } from "yaml";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readTextFile } from "../files.ts";
import type { ManifestPlace } from "../manifest-file.ts";
import { packedFacts } from "../project-facts.ts";
import type { Entry } from "./tree.ts";

const fileBytesMax = 4 * 1024 * 1024;

/**
 * Throws DEPLOY_TRIGGER_FAILED when what visitors would get cannot be right, as far as it is known before a build, and
 * nobody said that it is meant: with --yes it is a warning.
 */
export async function requireLikelySite(
  context: Context,
  place: ManifestPlace,
  manifest: SourceManifest,
  entries: readonly Entry[],
): Promise<void> {
  if (manifest.build.allowUnusual === true) return;
  const packed = leavesBuildOpen(manifest)
    ? await packedFacts(entries, manifest.source.rootDirectory)
    : { files: new Set(entries.map(({ path }) => path)), texts: new Map<string, string>() };
  const site = packedSite(manifest, packed);
  if (site === null || site.doubts.length === 0) return;
  const { directory, doubts } = site;
  if (context.globals.yes) {
    for (const doubt of doubts) context.warn(doubt);
    return;
  }
  const what = directory === "." ? "the files of this directory" : `the files in ${directory}`;
  throw new CliError("DEPLOY_TRIGGER_FAILED", [`Visitors would get ${what} as they are:`, ...doubts].join("\n  "), {
    hint: `Change ${await lineToChange(place)}. If it is meant like this, write allowUnusual: true below build there, or run the same command with --yes`,
  });
}

/** Where in the manifest it stands what is served: the key and its line, as far as it is written. */
async function lineToChange({ file, path }: ManifestPlace): Promise<string> {
  const lines = new LineCounter();
  const document = parseDocument((await readTextFile(file, fileBytesMax)) ?? "", { lineCounter: lines });
  for (const keys of [["build", "output"], ["build"], ["app", "type"]]) {
    const parent = keys.length === 1 ? document.contents : document.getIn(keys.slice(0, -1));
    const pair = isMap(parent) ? parent.items.find(({ key }) => isScalar(key) && key.value === keys.at(-1)) : undefined;
    if (pair !== undefined && isScalar(pair.key) && pair.key.range)
      return `${keys.join(".")} in line ${lines.linePos(pair.key.range[0]).line} of ${path}`;
  }
  return path;
}
