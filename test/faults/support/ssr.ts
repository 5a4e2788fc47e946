import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { copyExample } from "@svc/deploy/examples";
import { repositoryRoot } from "@svc/deploy/paths";
import { rolldown } from "rolldown";

/** What the example's programs are; its manifest starts the first and runs the second before each release. */
const programs = ["server.js", "release.js"];

/**
 * A copy of the `ssr` example, made to run as `replicas` containers. What it imports is bundled into it: the
 * machines of fault tests reach no package registry.
 */
export async function copySsr(target: string, { replicas, slug }: { replicas: number; slug: string }): Promise<void> {
  await copyExample("ssr", target, "");
  for (const program of programs) {
    const bundle = await rolldown({
      input: join(repositoryRoot, "deploy", "examples", "ssr", "src", program),
      platform: "node",
      logLevel: "silent",
    });
    await bundle.write({ file: join(target, "src", program), format: "esm", codeSplitting: false });
    await bundle.close();
  }
  await withoutDependencies(join(target, "package.json"));
  await withoutDependencies(join(target, "package-lock.json"));
  const manifest = join(target, "svc.yml");
  const text = await readFile(manifest, "utf8");
  const changed = text
    .replace("slug: example-ssr\n", `slug: ${slug}\n`)
    .replace("  port: 3000\n", `  port: 3000\n  replicas: ${replicas}\n`);
  await writeFile(manifest, changed);
}

async function withoutDependencies(path: string): Promise<void> {
  const { name, version, type } = JSON.parse(await readFile(path, "utf8"));
  const empty = path.endsWith("package-lock.json")
    ? { name, version, lockfileVersion: 3, requires: true, packages: { "": { name, version } } }
    : { name, version, private: true, type, scripts: { start: "node src/server.js" } };
  await writeFile(path, `${JSON.stringify(empty, null, 2)}\n`);
}
