import type { Readable } from "node:stream";
import type { FoundManifest, Registry } from "@svc/registry";
import { upstreamFailure } from "./failures.ts";

/** Where an image comes from: one repository, and what its errors mean for the deployment. */
export interface Origin extends AsyncDisposable {
  /** The repository, if it is one of the cluster's own registry: its blobs need not travel. */
  ownRepository: string | null;
  getManifest(reference: string, signal: AbortSignal): Promise<FoundManifest>;
  /** The bytes of a blob; its end is reached only by exactly those. */
  read(blob: { digest: string; size: number }, signal: AbortSignal): AsyncGenerator<Buffer>;
}

export interface OriginOptions {
  registry: Registry;
  host: string;
  repository: string;
  hasCredential: boolean;
  /** Whether it is the cluster's own registry, which stays open. */
  isOwn: boolean;
}

/** Every method throws ImageRefused for what the registry does. */
export function originOf({ registry, host, repository, hasCredential, isOwn }: OriginOptions): Origin {
  const translated = (error: unknown) => upstreamFailure(error, { host, hasCredential });
  return {
    ownRepository: isOwn ? repository : null,
    getManifest: (reference, signal) =>
      registry.getManifest(repository, reference, { signal }).catch((error: unknown) => {
        throw translated(error);
      }),
    async *read({ digest, size }, signal) {
      try {
        yield* (await registry.pullBlob(repository, digest, { sizeBytes: size, signal })) as Readable;
      } catch (error) {
        throw translated(error);
      }
    },
    async [Symbol.asyncDispose]() {
      if (!isOwn) await registry.close();
    },
  };
}
