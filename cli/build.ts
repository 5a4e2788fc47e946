import { chmod, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/**
 * Bundles the command line for publishing: everything it needs in a few files, one per command that is
 * loaded on its own, so that `npx svc-cli` starts quickly and installs nothing else.
 * `directory` is emptied first; `bin/svc.mjs` starts `dist/main.mjs` when it is there.
 */
export async function build(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  const bundle = await rolldown({
    input: { main: fileURLToPath(new URL("src/main.ts", import.meta.url)) },
    platform: "node",
  });
  try {
    await bundle.write({
      dir: directory,
      format: "esm",
      minify: { mangle: false, compress: true },
      entryFileNames: "[name].mjs",
      chunkFileNames: "chunks/[name]-[hash].mjs",
    });
  } finally {
    await bundle.close();
  }
  await chmod(fileURLToPath(new URL("bin/svc.mjs", import.meta.url)), 0o755);
}

if (import.meta.main) await build(fileURLToPath(new URL("dist", import.meta.url)));
