import { createArchiveReader, limits, RefusedArchiveError } from "@svc/proto";
import type { EnvFile } from "./file-env.ts";
import { createGunzip, InvalidGzipError } from "./gunzip.ts";

/** Looks through a source archive while it passes; nothing of it is kept but what was asked for. */
export interface SourceInspection extends Disposable {
  /** Resolves when all that `chunk` completes was looked at. Throws RefusedSourceError. */
  take(chunk: Buffer): Promise<void>;
  /** To be called when there is no more. Throws RefusedSourceError unless the archive was whole and held something. */
  end(): Promise<void>;
  /** Paths of all that is no directory. */
  paths(): readonly string[];
  /** The files that were asked for, in that order. Throws RefusedSourceError when one was not there. */
  files(): EnvFile[];
}

/** The archive will not be taken; the message is a sentence for whoever packed it. */
export class RefusedSourceError extends Error {
  override readonly name = "RefusedSourceError";
}

/**
 * @param maxBytes what all files of the archive together may hold
 * @param wanted paths in the archive of the files whose content is wanted: env files, so small ones
 */
export function inspectSource(maxBytes: number, wanted: readonly string[]): SourceInspection {
  const reader = createArchiveReader(maxBytes);
  const found = new Map<string, Buffer[]>();
  const paths: string[] = [];
  let files = 0;
  /** Where the content goes that comes next. */
  let pieces: Buffer[] | null = null;

  const gunzip = createGunzip((bytes) => {
    for (const part of reader.read(bytes)) {
      if ("content" in part) {
        pieces?.push(Buffer.from(part.content));
        continue;
      }
      const { entry } = part;
      if (entry.kind === "file") files += 1;
      if (entry.kind !== "directory") paths.push(entry.path);
      pieces = null;
      if (!wanted.includes(entry.path)) continue;
      if (entry.kind !== "file") throw refused(`env.files names ${entry.path}, which is not a plain file.`);
      if (entry.sizeBytes > limits.envFileBytesMax)
        throw refused(`env.files names ${entry.path}, which has more than ${limits.envFileBytesMax / 1024} KiB.`);
      pieces = [];
      found.set(entry.path, pieces);
    }
  });

  return {
    take: (chunk) => gunzip.write(chunk).catch(refuse),
    async end() {
      await gunzip.end().catch(refuse);
      try {
        reader.end();
      } catch (error) {
        refuse(error);
      }
      if (files === 0) throw refused("The archive was refused: it holds no file.");
    },
    paths: () => paths,
    files: () =>
      wanted.map((path) => {
        const content = found.get(path);
        if (content === undefined) throw refused(`env.files names ${path}, which is not in the archive.`);
        return { path, bytes: Buffer.concat(content) };
      }),
    [Symbol.dispose]: () => gunzip[Symbol.dispose](),
  };
}

const refused = (message: string): RefusedSourceError => new RefusedSourceError(message);

function refuse(error: unknown): never {
  const isRefusal = error instanceof RefusedArchiveError || error instanceof InvalidGzipError;
  throw isRefusal ? refused(`The archive was refused: ${error.message}.`) : error;
}
