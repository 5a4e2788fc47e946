import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { isFileError, syncDirectory } from "@svc/runtime/durable-file";
import { type Extract, extract } from "tar-stream";
import { bundleLimits, contentTime, placeOf } from "./place.ts";

/** The archive is not one that may be published; trying again gives the same. */
export class BundleRefusedError extends Error {
  override name = "BundleRefusedError";
}

/** Files whose way to the disk is awaited together. */
const syncsAtOnce = 16;

/**
 * Unpacks a gzipped tar into `dir`, which is empty. Everything is on disk when it returns, and the whole
 * archive was read, so a digest that its stream checks at the end was checked.
 *
 * @throws BundleRefusedError for an archive with a name, type or size that is not allowed
 */
export async function unpack(archive: Readable, dir: string, signal: AbortSignal): Promise<void> {
  const tar = extract();
  const writing = writeEntries(tar, dir);
  const reading = pipeline(archive, createGunzip(), bounded(), tar, { signal });
  const [written, read] = await Promise.allSettled([writing, reading]);
  if (written.status === "rejected" && written.reason instanceof BundleRefusedError) throw written.reason;
  // Either end breaks the other off; what the source said is the reason.
  if (read.status === "rejected") throw read.reason;
  if (written.status === "rejected") throw written.reason;
}

type Entry = Extract extends AsyncIterable<infer E> ? E : never;

/** Content, headers and padding together. */
const archiveTextBytesMax = bundleLimits.unpackedBytesMax + 512 * 1024 ** 2;

/** Passes on so much, whatever it is. */
function bounded(): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      if (bytes > archiveTextBytesMax) done(new BundleRefusedError("the bundle is too large unpacked"));
      else done(null, chunk);
    },
  });
}

async function writeEntries(tar: AsyncIterable<Entry>, dir: string): Promise<void> {
  const directories = new Set<string>([dir]);
  const syncs: Promise<void>[] = [];
  let entries = 0;
  let contentBytes = 0;
  try {
    for await (const entry of tar) {
      entries += 1;
      contentBytes += entry.header.size ?? 0;
      if (entries > bundleLimits.entriesMax) throw new BundleRefusedError("the bundle has too many files");
      if (contentBytes > bundleLimits.unpackedBytesMax) {
        throw new BundleRefusedError("the bundle is too large unpacked");
      }
      const place = placeOf(entry.header.name, entry.header.type);
      if ("problem" in place) throw new BundleRefusedError(`the bundle holds ${place.problem}`);
      if (place.kind === "hidden") {
        entry.resume();
        continue;
      }
      const folders = place.kind === "directory" ? place.segments : place.segments.slice(0, -1);
      await makeDirectories(dir, folders, directories);
      if (place.kind === "directory") entry.resume();
      else await writeFile(entry, join(dir, ...place.segments), syncs);
      if (syncs.length >= syncsAtOnce) await Promise.all(syncs.splice(0));
    }
  } finally {
    await Promise.allSettled(syncs);
  }
  await Promise.all(syncs);
  for (const directory of directories) await syncDirectory(directory);
}

async function makeDirectories(root: string, folders: readonly string[], known: Set<string>): Promise<void> {
  let path = root;
  for (const folder of folders) {
    path = join(path, folder);
    if (known.has(path)) continue;
    try {
      await mkdir(path, { mode: 0o755 });
    } catch (cause) {
      if (isFileError(cause, "EEXIST", "ENOTDIR"))
        throw new BundleRefusedError("the bundle has a file and a directory of one name");
      throw cause;
    }
    known.add(path);
  }
}

/** Writes one file. Its way to the disk goes on when this returns, and is added to `syncs`. */
async function writeFile(entry: Entry, path: string, syncs: Promise<void>[]): Promise<void> {
  const file = await create(path);
  try {
    const hash = createHash("sha256");
    for await (const chunk of entry as AsyncIterable<Buffer>) {
      hash.update(chunk);
      await file.writeFile(chunk);
    }
    const seconds = contentTime(hash.digest());
    await file.utimes(seconds, seconds);
  } catch (cause) {
    await file.close();
    throw cause;
  }
  const sync = file.sync().finally(() => file.close());
  // Whoever awaits the list hears of a failure; until then it is not unhandled.
  sync.catch(() => {});
  syncs.push(sync);
}

async function create(path: string) {
  try {
    return await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644);
  } catch (cause) {
    if (isFileError(cause, "EEXIST", "EISDIR")) throw new BundleRefusedError("the bundle has a name twice");
    throw cause;
  }
}
