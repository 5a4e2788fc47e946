import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "./build.ts";

/** What of the manifest an application needs. */
const kept = ["name", "version", "description", "license", "type", "engines", "exports", "sideEffects"] as const;
const peers = ["peerDependencies", "peerDependenciesMeta"] as const;

/**
 * Writes the package into `directory`, which is emptied first, as an application carries it that cannot have it from a registry:
 * code and declarations without source maps, in a place that nobody's list of ignored files names.
 */
async function vendor(directory: string): Promise<void> {
  const built = await mkdtemp(join(tmpdir(), "svc-realtime-vendor-"));
  try {
    await build(built);
    await rm(directory, { recursive: true, force: true });
    for (const name of (await readdir(built, { recursive: true })).sort()) {
      if (!/\.(js|d\.ts)$/.test(name)) continue;
      await mkdir(dirname(join(directory, name)), { recursive: true });
      if (name.endsWith(".d.ts")) await cp(join(built, name), join(directory, name));
      else await writeFile(join(directory, name), withoutMap(await readFile(join(built, name), "utf8")));
    }
  } finally {
    await rm(built, { recursive: true, force: true });
  }
  const manifest = JSON.parse(
    await readFile(fileURLToPath(new URL("package.json", import.meta.url)), "utf8"),
  ) as Record<string, unknown>;
  const own = Object.fromEntries([...kept, ...peers].map((key) => [key, manifest[key]]));
  await writeFile(join(directory, "package.json"), `${JSON.stringify(own, null, 2).replaceAll("./dist/", "./")}\n`);
}

const withoutMap = (code: string): string => code.replace(/\n?\/\/# sourceMappingURL=.*\n?$/, "\n");

// `node realtime/vendor.ts <directory>`
const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error("say which directory");
await vendor(resolve(directory));
