import { servedAs } from "@svc/proto/served-site";

/** A file of a static site and the archive's file that holds its bytes. */
export interface SiteFile {
  path: string;
  source: string;
}

const linksMax = 16;

/**
 * What visitors may see of an archive: the files under `root`, links to files included as files, in the order
 * of their paths.
 *
 * @param root directory of the site; empty for the whole archive
 */
export function selectSite(
  archive: { files: ReadonlyMap<string, unknown>; symlinks: ReadonlyMap<string, string> },
  root: string,
): SiteFile[] {
  const site: SiteFile[] = [];
  for (const path of [...archive.files.keys(), ...archive.symlinks.keys()]) {
    const name = servedAs(path, root);
    const source = name === null ? null : followLinks(path, archive);
    if (name !== null && source !== null) site.push({ path: name, source });
  }
  return site.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The file behind a path; null when it ends at a directory, nowhere, or in a circle. */
function followLinks(
  path: string,
  archive: { files: ReadonlyMap<string, unknown>; symlinks: ReadonlyMap<string, string> },
): string | null {
  let at = path;
  for (let step = 0; step < linksMax; step += 1) {
    if (archive.files.has(at)) return at;
    const target = archive.symlinks.get(at);
    if (target === undefined) return null;
    const parts = at.split("/").slice(0, -1);
    for (const part of target.split("/")) {
      if (part === "..") parts.pop();
      else if (part !== "" && part !== ".") parts.push(part);
    }
    at = parts.join("/");
  }
  return null;
}

const textExtensions = new Set(
  "html htm css js mjs cjs json map xml svg txt md csv webmanifest wasm ico ttf otf eot rss atom yml yaml".split(" "),
);
const smallestBytes = 1024;
const largestBytes = 16 * 1024 * 1024;

/** Whether smaller copies of a file are worth making: text of more than 1 KiB that has none of its own. */
export function isCompressible(path: string, sizeBytes: number): boolean {
  const extension = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  return sizeBytes > smallestBytes && sizeBytes <= largestBytes && textExtensions.has(extension);
}
