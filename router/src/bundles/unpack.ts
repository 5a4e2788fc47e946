import { createHash, type Hash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { createTarReader, RefusedArchiveError, type TarHeader } from "@svc/proto";
import { isFileError, syncDirectory } from "@svc/runtime/durable-file";
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
 * @param requireRoom throws when nothing more may be written; asked before anything is, and now and then
 * @throws BundleRefusedError for an archive that is no whole tar, or has a name, type or size that is not allowed
 */
export async function unpack(
  archive: Readable,
  dir: string,
  signal: AbortSignal,
  requireRoom: () => Promise<void>,
): Promise<void> {
  const tar = createTarReader();
  const writeAll = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
    await using writer = createWriter(dir, requireRoom);
    for await (const chunk of chunks)
      for (const part of tar.read(chunk))
        await ("header" in part ? writer.begin(part.header) : writer.write(part.content));
    tar.end();
    await writer.end();
  };
  try {
    await pipeline(archive, createGunzip(), bounded(), writeAll, { signal });
  } catch (cause) {
    if (!(cause instanceof RefusedArchiveError)) throw cause;
    throw new BundleRefusedError(`the bundle cannot be read: ${cause.message}`, { cause });
  }
}

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

/** How much is written between two looks at the room: three bundles at once leave most of what is kept free. */
const roomEveryBytes = 16 * 1024 ** 2;
/** What a file takes that has nothing in it. */
const entryBytes = 4_096;

/** Writes the entries of one bundle, each as it comes. Disposing closes whatever is open, also after a failure. */
function createWriter(dir: string, requireRoom: () => Promise<void>) {
  const directories = new Set<string>([dir]);
  const syncs: Promise<void>[] = [];
  let entries = 0;
  let contentBytes = 0;
  let current: { file: FileHandle; hash: Hash } | null = null;

  let unlookedBytes = roomEveryBytes;
  const take = async (bytes: number): Promise<void> => {
    unlookedBytes += bytes;
    if (unlookedBytes < roomEveryBytes) return;
    await requireRoom();
    unlookedBytes = 0;
  };

  /** Ends the file under way. Its way to the disk goes on when this returns. */
  async function endFile(): Promise<void> {
    if (current === null) return;
    const { file, hash } = current;
    const seconds = contentTime(hash.digest());
    await file.utimes(seconds, seconds);
    current = null;
    const sync = file.sync().finally(() => file.close());
    // Who awaits the list hears of a failure; until then it is not unhandled.
    sync.catch(() => {});
    syncs.push(sync);
    if (syncs.length >= syncsAtOnce) await Promise.all(syncs.splice(0));
  }

  return {
    async begin({ name, type, sizeBytes }: TarHeader): Promise<void> {
      await endFile();
      entries += 1;
      contentBytes += sizeBytes;
      if (entries > bundleLimits.entriesMax) throw new BundleRefusedError("the bundle has too many files");
      if (contentBytes > bundleLimits.unpackedBytesMax)
        throw new BundleRefusedError("the bundle is too large unpacked");
      const place = placeOf(name, type);
      if ("problem" in place) throw new BundleRefusedError(`the bundle holds ${place.problem}`);
      if (place.kind === "hidden") return;
      const { kind, segments } = place;
      await take(entryBytes);
      await makeDirectories(dir, kind === "directory" ? segments : segments.slice(0, -1), directories);
      if (kind === "file") current = { file: await create(join(dir, ...segments)), hash: createHash("sha256") };
    },
    /** Content of what was begun last; of what is hidden it goes nowhere. */
    async write(content: Uint8Array): Promise<void> {
      if (current === null) return;
      await take(content.length);
      current.hash.update(content);
      await current.file.writeFile(content);
    },
    async end(): Promise<void> {
      await endFile();
      await Promise.all(syncs);
      for (const directory of directories) await syncDirectory(directory);
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await current?.file.close();
      await Promise.allSettled(syncs);
    },
  };
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

async function create(path: string) {
  try {
    return await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644);
  } catch (cause) {
    if (isFileError(cause, "EEXIST", "EISDIR")) throw new BundleRefusedError("the bundle has a name twice");
    throw cause;
  }
}
