import { Readable } from "node:stream";
import { pack } from "tar-stream";
import type { Ids } from "../engine/context-owner.ts";
import type { Archive, ArchiveFile } from "./archive.ts";

/** One entry of a tar that we write. */
export type TarEntry =
  | { kind: "directory"; name: string }
  | { kind: "symlink"; name: string; target: string }
  | { kind: "bytes"; name: string; executable: boolean; content: Buffer }
  | { kind: "stream"; name: string; executable: boolean; content: AsyncIterable<Uint8Array>; sizeBytes: number };

const epoch = new Date(0);
/** Files up to this size are held in memory as a whole. */
const wholeMaxBytes = 1024 * 1024;

/** A tar of the entries in their order, written as fast as it is read. No time gets into it, and one owner: root, or `owner`. */
export function packTar(entries: AsyncIterable<TarEntry>, owner: Ids = { uid: 0, gid: 0 }): Readable {
  return Readable.from(packChunks(entries, owner));
}

/** The entry for a file of an archive, under another name perhaps. */
export async function fileEntry(archive: Archive, name: string, file: ArchiveFile): Promise<TarEntry> {
  const { executable, sizeBytes } = file;
  if (sizeBytes > wholeMaxBytes) return { kind: "stream", name, executable, content: archive.stream(file), sizeBytes };
  return { kind: "bytes", name, executable, content: await archive.read(file) };
}

async function* packChunks(entries: AsyncIterable<TarEntry>, owner: Ids): AsyncGenerator<Uint8Array> {
  const tar = pack();
  const writing = (async () => {
    for await (const entry of entries) await write(tar, entry, owner);
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
function write(tar: ReturnType<typeof pack>, entry: TarEntry, owner: Ids): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null): void => (error ? reject(error) : resolve());
    const common = { name: entry.name, mtime: epoch, ...owner };
    switch (entry.kind) {
      case "directory":
        tar.entry({ ...common, type: "directory", mode: 0o755 }, done);
        return;
      case "symlink":
        tar.entry({ ...common, type: "symlink", linkname: entry.target }, done);
        return;
      case "bytes":
        tar.entry({ ...common, mode: modeOf(entry) }, entry.content, done);
        return;
      case "stream": {
        const sink = tar.entry({ ...common, mode: modeOf(entry), size: entry.sizeBytes }, done);
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
