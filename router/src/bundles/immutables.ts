import { link, mkdir, readdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { syncDirectory } from "@svc/runtime/durable-file";
import { isImmutable } from "./immutable.ts";

/**
 * Links the files below `bundle` that can never change to the same paths below `into`, which is made. So whether a file
 * may be kept for ever is decided once, and Caddy knows it by where the file is. On disk when it returns.
 */
export async function linkImmutables(bundle: string, into: string): Promise<void> {
  const directories = new Set<string>([into]);
  await mkdir(into, { mode: 0o755 });
  for (const entry of await readdir(bundle, { recursive: true, withFileTypes: true })) {
    const path = relative(bundle, join(entry.parentPath, entry.name));
    if (!entry.isFile() || !isImmutable(`/${path}`)) continue;
    const to = join(into, path);
    if (!directories.has(dirname(to))) {
      await mkdir(dirname(to), { recursive: true, mode: 0o755 });
      for (let dir = dirname(to); !directories.has(dir); dir = dirname(dir)) directories.add(dir);
    }
    await link(join(bundle, path), to);
  }
  for (const directory of directories) await syncDirectory(directory);
}
