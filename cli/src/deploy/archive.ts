import { createHash } from "node:crypto";
import { constants, createWriteStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Transform, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack as createPack, type Header, type Pack } from "tar-stream";
import type { Entry } from "./tree.ts";
import { changedWhilePacking, readFailure } from "./unreadable.ts";

/** What was packed. `sizeBytes` is the compressed archive, `unpackedBytes` what is in its files; `digest` is of its bytes. */
export interface Archive {
  sizeBytes: number;
  digest: string;
  unpackedBytes: number;
  files: number;
}

/** How large the compressed archive may get, and what to fail with as soon as it is larger. */
export interface SizeLimit {
  maxBytes: number;
  tooLarge(): Error;
}

// When a file was written says nothing about what is in it.
const mtime = new Date(0);
const atOnceBytesMax = 128 * 1024;

/**
 * Writes the entries to `file` as a gzipped tar. The same entries with the same contents make the same
 * bytes: order, owner, time and mode of an entry are fixed, and so is what gzip says of itself.
 */
export async function writeArchive(
  entries: readonly Entry[],
  file: string,
  signal: AbortSignal,
  limit?: SizeLimit,
): Promise<Archive> {
  return streamArchive(entries, createWriteStream(file, { flags: "wx", mode: 0o600 }), signal, limit);
}

/** The same into any stream. */
export async function streamArchive(
  entries: readonly Entry[],
  sink: Writable,
  signal: AbortSignal,
  limit?: SizeLimit,
): Promise<Archive> {
  const pack = createPack();
  let sizeBytes = 0;
  let unpackedBytes = 0;
  const hash = createHash("sha256");
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sizeBytes += chunk.length;
      hash.update(chunk);
      if (limit !== undefined && sizeBytes > limit.maxBytes) done(limit.tooLarge());
      else done(null, chunk);
    },
  });
  const fill = async () => {
    for (const entry of entries) unpackedBytes += await addEntry(pack, entry);
    pack.finalize();
  };
  const flow = pipeline(pack, createGzip({ level: 6 }), anonymousGzip(), counter, sink, { signal });
  // What ends the one ends the other; the first failure is the one that is told, by the flow.
  const filled = fill().catch((thrown: unknown) => {
    pack.destroy(thrown instanceof Error ? thrown : new Error(String(thrown)));
  });
  await flow;
  await filled;
  return { sizeBytes, digest: hash.digest("hex"), unpackedBytes, files: entries.length };
}

/** Adds one entry; returns how many bytes it holds. */
async function addEntry(pack: Pack, entry: Entry): Promise<number> {
  const owner = { uid: 0, gid: 0, uname: "", gname: "", devmajor: 0, devminor: 0 };
  const header = { name: entry.path, mtime, linkname: "", ...owner };
  if (entry.kind === "link") {
    await put(pack, { ...header, type: "symlink", linkname: entry.target, size: 0, mode: 0o777 });
    return 0;
  }
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  // Whoever puts a link or a pipe in the file's place between listing and reading gets an error: not somebody
  // else's file, and no endless wait.
  const flags = O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0);
  const handle = await open(entry.file, flags).catch((thrown: unknown) => {
    throw readFailure(entry.path, thrown);
  });
  try {
    const before = await handle.stat({ bigint: true });
    if (!before.isFile()) throw changedWhilePacking(entry.path);
    const size = Number(before.size);
    const mode = entry.executable ? 0o755 : 0o644;
    await put(pack, { ...header, type: "file", size, mode }, await contentOf(handle, size));
    const after = await handle.stat({ bigint: true });
    if (after.size !== before.size || after.mtimeNs !== before.mtimeNs) throw changedWhilePacking(entry.path);
    return size;
  } catch (thrown) {
    if (thrown instanceof Error && thrown.message === "Size mismatch") throw changedWhilePacking(entry.path);
    throw readFailure(entry.path, thrown);
  } finally {
    await handle.close();
  }
}

/** The first `size` bytes: at once where they are few, which most files are, else as a stream. */
async function contentOf(handle: FileHandle, size: number): Promise<Buffer | AsyncIterable<Buffer>> {
  if (size > atOnceBytesMax) return handle.createReadStream({ autoClose: false, start: 0, end: size - 1 });
  const content = Buffer.allocUnsafe(size);
  let read = 0;
  while (read < size) {
    const { bytesRead } = await handle.read(content, read, size - read, read);
    // Shorter than it was said to be; the archive will refuse it.
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return content.subarray(0, read);
}

function put(pack: Pack, header: Header, content: Buffer | AsyncIterable<Buffer> = Buffer.alloc(0)): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    const sink = pack.entry(header, done);
    if (header.type === "symlink") return;
    if (Buffer.isBuffer(content)) sink.end(content);
    else pipeline(content, sink).catch(reject);
  });
}

/** gzip names the system that it ran on in byte 9 of its header; 255 is "unknown". */
function anonymousGzip(): Transform {
  let position = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (position <= 9 && position + chunk.length > 9) chunk[9 - position] = 255;
      position += chunk.length;
      done(null, chunk);
    },
  });
}
