import { randomBytes } from "node:crypto";
import { mkdir, readdir, rename, rm, stat, statfs, utimes } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { hasCode, syncDirectory } from "../durable-file.ts";
import type { Log } from "../log.ts";
import { unpack } from "./unpack.ts";

/** Unpacked bundles, each in a directory named after its digest. A directory under that name is complete. */
export interface BundleStore {
  has(name: string): boolean;
  /** Unpacks the archive under `name`; all of it is in place and on disk afterwards, or nothing. */
  add(name: string, archive: Readable, signal: AbortSignal): Promise<void>;
  /** Removes what is not in `keep`, except those that were in use last. */
  collect(keep: ReadonlySet<string>): Promise<void>;
}

/** Bundles kept although no route uses them now: going back to one needs no download. */
const recentKept = 20;
/** A bundle is refused when it would leave less than this. */
const freeBytesMin = 512 * 1024 ** 2;

const bundleName = /^[0-9a-f]{64}$/;

export async function openBundleStore(dir: string, log: Log): Promise<BundleStore> {
  // Caddy may run as another user.
  await mkdir(dir, { recursive: true, mode: 0o755 });
  const present = new Set<string>();
  for (const name of await readdir(dir)) {
    if (bundleName.test(name)) present.add(name);
    else await rm(join(dir, name), { recursive: true, force: true });
  }
  let inUse: ReadonlySet<string> = new Set();

  return {
    has: (name) => present.has(name),
    async add(name, archive, signal) {
      const { bavail, bsize } = await statfs(dir);
      if (bavail * bsize < freeBytesMin) {
        archive.destroy();
        throw new Error("the edge has too little disk space");
      }
      const temporary = join(dir, `.${name}.${randomBytes(6).toString("hex")}`);
      await mkdir(temporary, { mode: 0o755 });
      try {
        await unpack(archive, temporary, signal);
        await rename(temporary, join(dir, name));
      } catch (cause) {
        archive.destroy();
        await rm(temporary, { recursive: true, force: true });
        throw cause;
      }
      await syncDirectory(dir);
      present.add(name);
      log.info({ bundle: name }, "bundle in place");
    },
    async collect(keep) {
      const now = new Date();
      for (const name of inUse) {
        // The time of the directory says when it was used last.
        if (!keep.has(name) && present.has(name)) await utimes(join(dir, name), now, now);
      }
      inUse = new Set(keep);
      const idle = await Promise.all(
        [...present]
          .filter((name) => !keep.has(name))
          .map(async (name) => ({ name, usedAt: await usedAt(join(dir, name)) })),
      );
      const excess = idle.sort((a, b) => b.usedAt - a.usedAt || (a.name < b.name ? -1 : 1)).slice(recentKept);
      for (const { name } of excess) {
        present.delete(name);
        // Renamed first, so that what is under a bundle's name is always complete.
        const doomed = join(dir, `.${name}.removed`);
        await rename(join(dir, name), doomed);
        await rm(doomed, { recursive: true, force: true });
        log.info({ bundle: name }, "unused bundle removed");
      }
    },
  };
}

async function usedAt(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return 0;
    throw cause;
  }
}
