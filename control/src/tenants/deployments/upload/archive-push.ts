import { Readable } from "node:stream";
import type { MultipartFile } from "@fastify/multipart";
import type { Registry } from "@svc/registry";
import { tooLarge, until } from "./body.ts";
import { inspectSource, type SourceInspection } from "./source.ts";

export interface UploadTarget {
  registry: Pick<Registry, "pushArtifact">;
  repository: string;
  /** Of the archive alone, as it travels. */
  maxBytes: number;
  /** Of all its files together. */
  maxUnpackedBytes: number;
  /** Aborted when the client is gone or too slow. */
  signal: AbortSignal;
}

/** An archive on its way into the registry. */
export interface ArchivePush {
  /** Paths of the files that are kept; null when nobody knew yet which. */
  wanted: readonly string[] | null;
  inspection: SourceInspection;
  /** Resolves when all of the archive has passed and was found good; rejects with what is wrong with it. */
  read: Promise<void>;
  /** Has it stored. */
  keep(): Promise<{ digest: string; sizeBytes: number }>;
  /** Has nothing stored; resolves when the registry has been told. */
  drop(reason: Error): Promise<void>;
}

/**
 * Streams the archive into the registry while it is looked through, a few MiB at a time. The registry is given the end
 * of it, without which it stores nothing, only with `keep`.
 */
export function pushArchive(
  { file }: MultipartFile,
  target: UploadTarget,
  wanted: readonly string[] | null,
): ArchivePush {
  const { registry, repository, maxBytes, maxUnpackedBytes, signal } = target;
  const inspection = inspectSource(maxUnpackedBytes, wanted ?? []);
  const read = Promise.withResolvers<void>();
  const verdict = Promise.withResolvers<void>();
  verdict.promise.catch(() => {});

  async function* content(): AsyncGenerator<Buffer> {
    let sizeBytes = 0;
    for await (const chunk of until<Buffer>(file, signal)) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
      await inspection.take(chunk);
      yield chunk;
    }
    await inspection.end();
    read.resolve();
    await verdict.promise;
  }

  const stream = Readable.from(content(), { objectMode: false });
  const pushed = registry.pushArtifact(repository, { kind: "source", stream, signal });
  // Whoever waits for the archive hears of a failure there.
  pushed.catch(read.reject);
  return {
    wanted,
    inspection,
    read: read.promise,
    async keep() {
      verdict.resolve();
      const { digest, sizeBytes } = await pushed;
      inspection[Symbol.dispose]();
      return { digest, sizeBytes };
    },
    async drop(reason) {
      verdict.reject(reason);
      await pushed.catch(() => {});
      file.destroy();
      inspection[Symbol.dispose]();
    },
  };
}
