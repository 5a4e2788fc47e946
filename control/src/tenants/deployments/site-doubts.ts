import { isOciManifest, type Manifest, type SourceManifest } from "@svc/proto";
import { packedSite } from "@svc/proto/packed-site";

/** Whether its owner wants to hear what cannot be right about a site. */
export const warnsOfSite = (manifest: Manifest): boolean =>
  !isOciManifest(manifest) && manifest.build.allowUnusual !== true;

/**
 * What cannot be right about a site that is served as it was packed. Nothing where a build may make the site: that is
 * looked at by whoever built it. No text of the archive is read here, because what a stranger wrote would be read in the
 * process that answers everybody; so any package.json may be that of a project that builds itself.
 *
 * @param paths in the archive
 */
export function packedSiteDoubts(manifest: SourceManifest, paths: readonly string[]): string[] {
  if (!warnsOfSite(manifest)) return [];
  return packedSite(manifest, { files: new Set(paths), texts: new Map() })?.doubts ?? [];
}
