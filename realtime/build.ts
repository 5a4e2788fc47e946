import { rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runProgramSync, thisNode } from "@svc/runtime/programs";
import { rolldown } from "rolldown";

const sourceOf = (entry: string): string => fileURLToPath(new URL(`src/${entry}.ts`, import.meta.url));

/** Entries by where they run: what both sides need is in each, so that a browser loads nothing of a server's. */
const groups = [
  ["index", "postgres"],
  ["client", "events", "react"],
];

/**
 * Builds the package for publishing: each entry as JavaScript with its source map, and the declarations of all. `directory` is
 * emptied first.
 */
export async function build(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  for (const entries of groups) {
    const bundle = await rolldown({
      input: Object.fromEntries(entries.map((entry) => [entry, sourceOf(entry)])),
      platform: "neutral",
      external: [/^node:/, "react"],
      // "use client" stays where it is needed: at the top of its entry. A test looks.
      onLog: (level, log, report) => log.code === "MODULE_LEVEL_DIRECTIVE" || report(level, log),
    });
    try {
      await bundle.write({
        dir: directory,
        format: "esm",
        minify: true,
        sourcemap: true,
        chunkFileNames: "shared-[hash].js",
      });
    } finally {
      await bundle.close();
    }
  }
  const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
  const project = fileURLToPath(new URL("tsconfig.build.json", import.meta.url));
  runProgramSync([thisNode, compiler, "-p", project, "--outDir", directory]);
}

if (import.meta.main) await build(fileURLToPath(new URL("dist", import.meta.url)));
