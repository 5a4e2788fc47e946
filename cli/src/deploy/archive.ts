import { constants, createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { Transform, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack as createPack, type Header, type Pack } from "tar-stream";
import { CliError } from "../errors.ts";
import type { Entry } from "./tree.ts";

/** What was packed. `sizeBytes` is the compressed archive, `unpackedBytes` what is in its files. */
export type Archive = { sizeBytes: number; unpackedBytes: number; files: number };

// When a file was written says nothing about what is in it.
const mtime = new Date(0);

/**
 * Writes the entries to `file` as a gzipped tar. The same entries with the same contents make the same
 * bytes: order, owner, time and mode of an entry are fixed, and so is what gzip says of itself.
 */
export async function writeArchive(entries: readonly Entry[], file: string, signal: AbortSignal): Promise<Archive> {
  return streamArchive(entries, createWriteStream(file, { flags: "wx", mode: 0o600 }), signal);
}

/** The same into any stream. */
export async function streamArchive(entries: readonly Entry[], sink: Writable, signal: AbortSignal): Promise<Archive> {
  const pack = createPack();
  let sizeBytes = 0;
  let unpackedBytes = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sizeBytes += chunk.length;
      done(null, chunk);
    },
  });
  const fill = async () => {
    for (const entry of entries) unpackedBytes += await addEntry(pack, entry);
    pack.finalize();
  };
  const flow = pipeline(pack, createGzip({ level: 6 }), anonymousGzip(), counter, sink, { signal });
  await Promise.all([
    fill().catch((thrown: unknown) => {
      pack.destroy(thrown instanceof Error ? thrown : new Error(String(thrown)));
      throw thrown;
    }),
    flow,
  ]);
  return { sizeBytes, unpackedBytes, files: entries.length };
}

/** Adds one entry; returns how many bytes it holds. */
async function addEntry(pack: Pack, entry: Entry): Promise<number> {
  const owner = { uid: 0, gid: 0, uname: "", gname: "", devmajor: 0, devminor: 0 };
  const header = { name: entry.path, mtime, linkname: "", ...owner };
  if (entry.kind === "link") {
    await put(pack, { ...header, type: "symlink", linkname: entry.target, size: 0, mode: 0o777 });
    return 0;
  }
  // Whoever puts a link in the file's place between listing and reading gets an error, not somebody else's file.
  const handle = await open(entry.file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const { size } = await handle.stat();
    const content = size === 0 ? [] : handle.createReadStream({ autoClose: false, start: 0, end: size - 1 });
    await put(pack, { ...header, type: "file", size, mode: entry.executable ? 0o755 : 0o644 }, content);
    return size;
  } catch (thrown) {
    if (!(thrown instanceof Error) || thrown.message !== "Size mismatch") throw thrown;
    throw new CliError("DEPLOY_TRIGGER_FAILED", `${entry.path} changed while it was packed`, {
      hint: "Run `svc deploy` again once nothing writes to it",
    });
  } finally {
    await handle.close();
  }
}

function put(pack: Pack, header: Header, content: AsyncIterable<Buffer> | Iterable<Buffer> = []): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    const sink = pack.entry(header, done);
    if (header.type !== "symlink") pipeline(content, sink).catch(reject);
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
