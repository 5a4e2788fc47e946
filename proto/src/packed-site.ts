import { buildsItself, type Facts } from "./frameworks/index.ts";
import type { SourceManifest } from "./manifest.ts";
import { tidyPath } from "./paths.ts";
import { servedAs, siteDoubts } from "./served-site.ts";

/** A static site that is served as it was packed: from where in the archive, and why that cannot be right. */
export interface PackedSite {
  directory: string;
  doubts: string[];
}

/** Whether the manifest of a static site leaves it to the project whether it is built. */
export const leavesBuildOpen = ({ app, build }: SourceManifest): boolean =>
  app.type === "static" && build.command === undefined && (build.output ?? ".") === ".";

/**
 * What is known of a site before any build; null when a build makes it, or may.
 *
 * @param packed the archive; its texts decide nothing unless `leavesBuildOpen`
 */
export function packedSite(manifest: SourceManifest, packed: Facts): PackedSite | null {
  const { app, source, build } = manifest;
  if (app.type !== "static" || build.command !== undefined) return null;
  if (leavesBuildOpen(manifest) && buildsItself(packed, source.rootDirectory)) return null;
  const directory = tidyPath(`${source.rootDirectory}/${build.output ?? "."}`);
  const paths = [...packed.files].flatMap((path) => servedAs(path, directory) ?? []);
  return { directory, doubts: siteDoubts(paths, { isWhole: leavesBuildOpen(manifest) }) };
}
