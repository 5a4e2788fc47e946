import { Readable } from "node:stream";
import { pack } from "tar-stream";
import type { Archive, ArchiveFile } from "./archive.ts";

/** One entry of a tar that we write. */
export type TarEntry =
  | { kind: "directory"; name: string }
  | { kind: "symlink"; name: string; target: string }
  | { kind: "bytes"; name: string; executable: boolean; content: Buffer }
  | { kind: "stream"; name: string; executable: boolean; content: AsyncIterable<Uint8Array>; sizeBytes: number };

const EPOCH = new Date(0);
/** Files up to this size are held in memory as a whole. */
const WHOLE_MAX_BYTES = 1024 * 1024;

/** A tar of the entries in their order, written as fast as it is read. No owner and no time gets into it. */
export function packTar(entries: AsyncIterable<TarEntry>): Readable {
  return Readable.from(packChunks(entries));
}

/** The entry for a file of an archive, under another name perhaps. */
export async function fileEntry(archive: Archive, name: string, file: ArchiveFile): Promise<TarEntry> {
  const { executable, sizeBytes } = file;
  if (sizeBytes > WHOLE_MAX_BYTES)
    return { kind: "stream", name, executable, content: archive.stream(file), sizeBytes };
  return { kind: "bytes", name, executable, content: await archive.read(file) };
}

async function* packChunks(entries: AsyncIterable<TarEntry>): AsyncGenerator<Uint8Array> {
  const tar = pack();
  const writing = (async () => {
    for await (const entry of entries) await write(tar, entry);
    tar.finalize();
  })();
  writing.catch((cause: unknown) => tar.destroy(cause instanceof Error ? cause : new Error(String(cause))));
  try {
    for await (const chunk of tar) if (chunk instanceof Uint8Array) yield chunk;
  } finally {
    // Also reached when the reader leaves early: then the writer is waiting for it.
    tar.destroy();
  }
  await writing;
}

/** Resolves once the entry is in the tar and the reader has room for more. */
function write(tar: ReturnType<typeof pack>, entry: TarEntry): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null): void => (error ? reject(error) : resolve());
    const mtime = EPOCH;
    switch (entry.kind) {
      case "directory":
        tar.entry({ name: entry.name, type: "directory", mode: 0o755, mtime }, done);
        return;
      case "symlink":
        tar.entry({ name: entry.name, type: "symlink", linkname: entry.target, mtime }, done);
        return;
      case "bytes":
        tar.entry({ name: entry.name, mode: modeOf(entry), mtime }, entry.content, done);
        return;
      case "stream": {
        const sink = tar.entry({ name: entry.name, mode: modeOf(entry), mtime, size: entry.sizeBytes }, done);
        const copy = async (): Promise<void> => {
          for await (const chunk of entry.content) {
            if (!sink.write(chunk)) await new Promise<void>((next) => void sink.once("drain", next));
          }
          sink.end(null);
        };
        copy().catch(reject);
      }
    }
  });
}

const modeOf = (entry: { executable: boolean }): number => (entry.executable ? 0o755 : 0o644);
