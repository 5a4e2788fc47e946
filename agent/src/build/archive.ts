import { randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract, type Header } from "tar-stream";
import { TaskFailure } from "../placements/failure.ts";
import { createArchiveRules, type Entry, show } from "./entries.ts";

/** A file of an archive, its bytes at a place in the spool. */
export type ArchiveFile = { path: string; executable: boolean; offset: number; sizeBytes: number };

/**
 * The content of an untrusted archive, checked. Names in it are only ever keys of this index: on the host
 * there is one spool file with a name of ours, which goes with the disposal.
 */
export type Archive = AsyncDisposable & {
  files: ReadonlyMap<string, ArchiveFile>;
  /** Path -> target. */
  symlinks: ReadonlyMap<string, string>;
  directories: ReadonlySet<string>;
  read(file: ArchiveFile): Promise<Buffer>;
  stream(file: ArchiveFile): Readable;
};

/** Headers and padding of the most entries that are allowed. */
const OVERHEAD_BYTES = 300 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** The body of an entry as the tar reader hands it out. */
type Content = AsyncIterable<unknown> & { resume(): unknown };

/**
 * Reads a tar into an `Archive`, refusing it as a whole when one entry breaks a rule.
 *
 * @throws TaskFailure SOURCE_INVALID or SOURCE_TOO_LARGE
 */
export async function readArchive(
  source: Readable,
  options: { spoolDir: string; maxBytes: number; gzip: boolean; signal: AbortSignal },
): Promise<Archive> {
  const { spoolDir, maxBytes, signal } = options;
  await mkdir(spoolDir, { recursive: true, mode: 0o700 });
  const path = join(spoolDir, randomBytes(12).toString("hex"));
  const spool = await open(path, "wx+", 0o600);
  const dispose = async (): Promise<void> => {
    await spool.close();
    await rm(path, { force: true });
  };
  try {
    const index = createIndex(spool, maxBytes);
    const unpack = extract();
    unpack.on("entry", (header, stream, next) => {
      // A refusal destroys the reader and the entry with it; whoever waits hears of it through the reader.
      stream.on("error", () => {});
      index.add(header, stream).then(
        () => next(),
        (cause: unknown) => next(cause instanceof Error ? cause : new Error(String(cause))),
      );
    });
    const bounded = limitBytes(maxBytes + OVERHEAD_BYTES);
    const stages = options.gzip ? [source, createGunzip(), bounded, unpack] : [source, bounded, unpack];
    await pipeline(stages, { signal });
    return { ...index.result, [Symbol.asyncDispose]: dispose };
  } catch (cause) {
    await dispose();
    signal.throwIfAborted();
    throw toFailure(cause);
  }
}

function createIndex(spool: FileHandle, maxBytes: number) {
  const rules = createArchiveRules(maxBytes);
  const files = new Map<string, ArchiveFile>();
  const symlinks = new Map<string, string>();
  const directories = new Set<string>();
  let end = 0;

  const keep = async (entry: Entry, content: Content): Promise<void> => {
    switch (entry.kind) {
      case "directory":
        directories.add(entry.path);
        return;
      case "symlink":
        symlinks.set(entry.path, entry.target);
        return;
      case "hardlink": {
        const original = files.get(entry.target);
        if (original !== undefined) files.set(entry.path, { ...original, path: entry.path });
        return;
      }
      case "file": {
        const offset = end;
        for await (const chunk of content) {
          if (!(chunk instanceof Uint8Array)) continue;
          await spool.write(chunk, 0, chunk.length, end);
          end += chunk.length;
        }
        files.set(entry.path, { path: entry.path, executable: entry.executable, offset, sizeBytes: end - offset });
      }
    }
  };

  return {
    async add(header: Header, content: Content): Promise<void> {
      const { name, type, mode = 0, size = 0, linkname } = header;
      const verdict = rules({ name, type, mode, size, linkname: linkname ?? "" });
      if ("refuse" in verdict) throw new RefusedEntryError(`${show(name)} ${verdict.refuse}`);
      if ("keep" in verdict) await keep(verdict.keep, content);
      content.resume();
    },
    result: {
      files,
      symlinks,
      directories,
      async read({ offset, sizeBytes }: ArchiveFile): Promise<Buffer> {
        const chunks: Buffer[] = [];
        for await (const chunk of readSlice(spool, offset, sizeBytes)) chunks.push(chunk);
        return Buffer.concat(chunks);
      },
      stream: ({ offset, sizeBytes }: ArchiveFile): Readable => Readable.from(readSlice(spool, offset, sizeBytes)),
    },
  };
}

async function* readSlice(spool: FileHandle, offset: number, sizeBytes: number): AsyncGenerator<Buffer> {
  for (let done = 0; done < sizeBytes; ) {
    const chunk = Buffer.alloc(Math.min(READ_BYTES, sizeBytes - done));
    const { bytesRead } = await spool.read(chunk, 0, chunk.length, offset + done);
    if (bytesRead === 0) throw new Error("the spool is shorter than its index says");
    done += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/** Passes on at most `maxBytes`: what stops an archive that inflates without end. */
function limitBytes(maxBytes: number): Transform {
  let passed = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      passed += chunk.length;
      if (passed > maxBytes) done(new RefusedEntryError("the archive unpacks to more than is allowed"));
      else done(null, chunk);
    },
  });
}

class RefusedEntryError extends Error {
  override name = "RefusedEntryError";
}

function toFailure(cause: unknown): unknown {
  if (cause instanceof RefusedEntryError) {
    const isSize = cause.message.includes("more than");
    return new TaskFailure(
      isSize ? "SOURCE_TOO_LARGE" : "SOURCE_INVALID",
      `The archive was refused: ${cause.message}.`,
    );
  }
  if (!(cause instanceof Error)) return cause;
  const isDamage =
    ("code" in cause && typeof cause.code === "string" && cause.code.startsWith("Z_")) ||
    /tar header|invalid header|unexpected end|header exceeds/i.test(cause.message);
  return isDamage
    ? new TaskFailure("SOURCE_INVALID", "The archive is damaged. Pack the project again.", { cause })
    : cause;
}
