import { randomBytes } from "node:crypto";
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type ArchiveEntry, type ArchivePart, createArchiveReader, RefusedArchiveError } from "@svc/proto";
import { TaskFailure } from "../placements/failure.ts";

/** A file of an archive, its bytes at a place in the spool. */
export interface ArchiveFile {
  path: string;
  executable: boolean;
  offset: number;
  sizeBytes: number;
}

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

const readBytes = 256 * 1024;

/**
 * Reads a gzipped source archive, or the plain tar of a build's output, into an `Archive`, refusing it as a whole when
 * one entry breaks a rule.
 *
 * @throws TaskFailure SOURCE_INVALID or SOURCE_TOO_LARGE
 */
export async function readArchive(
  source: Readable,
  options: { spoolDir: string; maxBytes: number; isOutput: boolean; signal: AbortSignal },
): Promise<Archive> {
  const { spoolDir, maxBytes, isOutput, signal } = options;
  await mkdir(spoolDir, { recursive: true, mode: 0o700 });
  const path = join(spoolDir, randomBytes(12).toString("hex"));
  const spool = await open(path, "wx+", 0o600);
  const dispose = async (): Promise<void> => {
    await spool.close();
    await rm(path, { force: true });
  };
  try {
    const index = createIndex(spool);
    const reader = createArchiveReader(maxBytes, { isOutput });
    const indexAll = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
      for await (const chunk of chunks) for (const part of reader.read(chunk)) await index.add(part);
      reader.end();
    };
    await (isOutput ? pipeline(source, indexAll, { signal }) : pipeline(source, createGunzip(), indexAll, { signal }));
    return { ...index.result, [Symbol.asyncDispose]: dispose };
  } catch (cause) {
    await dispose();
    signal.throwIfAborted();
    throw toFailure(cause);
  }
}

function createIndex(spool: FileHandle) {
  const files = new Map<string, ArchiveFile>();
  const symlinks = new Map<string, string>();
  const directories = new Set<string>();
  let end = 0;

  const addEntry = (entry: ArchiveEntry): void => {
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
        // Its content follows, and nothing else does before all of it was written.
        const { path, executable, sizeBytes } = entry;
        files.set(path, { path, executable, offset: end, sizeBytes });
      }
    }
  };

  return {
    async add(part: ArchivePart): Promise<void> {
      if ("entry" in part) {
        addEntry(part.entry);
        return;
      }
      await spool.write(part.content, 0, part.content.length, end);
      end += part.content.length;
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
    const chunk = Buffer.alloc(Math.min(readBytes, sizeBytes - done));
    const { bytesRead } = await spool.read(chunk, 0, chunk.length, offset + done);
    if (bytesRead === 0) throw new Error("the spool is shorter than its index says");
    done += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

function toFailure(cause: unknown): unknown {
  if (cause instanceof RefusedArchiveError) {
    return new TaskFailure(
      cause.reason === "too-large" ? "SOURCE_TOO_LARGE" : "SOURCE_INVALID",
      `The archive was refused: ${cause.message}.`,
    );
  }
  const isDamage =
    cause instanceof Error && "code" in cause && typeof cause.code === "string" && cause.code.startsWith("Z_");
  return isDamage
    ? new TaskFailure("SOURCE_INVALID", "The archive is damaged. Pack the project again.", { cause })
    : cause;
}
