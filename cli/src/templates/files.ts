import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { TemplateWithFiles } from "./names.ts";

/**
 * The texts of a template by their paths, with `/`. The sources read its folder, without what running it there leaves behind; the
 * build puts what they read in place of this file, so that the published program needs no folder.
 */
export async function templateFiles(name: TemplateWithFiles): Promise<ReadonlyMap<string, string>> {
  const folder = fileURLToPath(new URL(`../../templates/${name}`, import.meta.url));
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((path) => !/(^|\/)(node_modules\/|\.env)/.test(path))
    .sort();
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(folder, path), "utf8")] as const)),
  );
}
