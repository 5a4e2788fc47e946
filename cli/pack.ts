import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "./build.ts";

// `npm pack` and `npm publish` run this before and after they read the package: the bundle has all dependencies in it,
// so that the published manifest names none, least of all those that no registry has.

const inCli = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const manifest = inCli("package.json");
/** Where the manifest of the sources waits meanwhile; also what is left of a run that was killed. */
const kept = inCli("package.source.json");

/** What of the manifest of the sources the published one has. */
const published = ["name", "version", "description", "license", "type", "bin", "files", "engines"];

async function prepare(): Promise<void> {
  await restore();
  const source: Record<string, unknown> = JSON.parse(await readFile(manifest, "utf8"));
  await build(inCli("dist"));
  const text = `${JSON.stringify(Object.fromEntries(published.map((key) => [key, source[key]])), null, 2)}\n`;
  await writeFile(`${manifest}.new`, text);
  await writeFile(kept, await readFile(manifest));
  await rename(`${manifest}.new`, manifest);
}

async function restore(): Promise<void> {
  await rename(kept, manifest).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
  await rm(`${manifest}.new`, { force: true });
}

if (process.argv[2] === "prepare") await prepare();
else await restore();
