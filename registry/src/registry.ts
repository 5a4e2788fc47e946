import type { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import { type ArtifactKind, type PushedArtifact, pullArtifact, pushArtifact } from "./artifacts.ts";
import {
  type Content,
  hasBlob,
  mountBlob,
  type PullOptions,
  type PushOptions,
  pullBlob,
  pushBlob,
  type Stored,
  sizeOfBlob,
  type TransferOptions,
} from "./blobs.ts";
import { refused } from "./errors.ts";
import {
  deleteManifest,
  type FoundManifest,
  findManifest,
  getManifest,
  listTags,
  type OciManifest,
  putManifest,
  readManifest,
  type StoredManifest,
} from "./manifests.ts";
import { discard, type RegistryOptions, Transport } from "./transport.ts";

/**
 * A client of one OCI registry. Every method throws RegistryError. `repository` has no host and no tag:
 * `svc/<project>/app`. Deadlines: `timeoutMs` of silence anywhere, `transferTimeoutMs` for a whole blob.
 */
export type Registry = AsyncDisposable & {
  /** Throws unless the registry answers and accepts the credential. */
  ping(): Promise<void>;
  pushBlob(repository: string, content: Content, options?: PushOptions): Promise<Stored>;
  hasBlob(repository: string, digest: string, options?: TransferOptions): Promise<boolean>;
  sizeOfBlob(repository: string, digest: string, options?: TransferOptions): Promise<number | null>;
  /** Whether `digest` of the repository `from` is now in `repository` too. */
  mountBlob(repository: string, digest: string, from: string, options?: TransferOptions): Promise<boolean>;
  pullBlob(repository: string, digest: string, options?: PullOptions): Promise<Readable>;
  putManifest(
    repository: string,
    manifest: OciManifest | Buffer,
    options?: TransferOptions & { tag?: string; mediaType?: string },
  ): Promise<Stored>;
  getManifest(repository: string, reference: string, options?: TransferOptions): Promise<FoundManifest>;
  findManifest(repository: string, reference: string, options?: TransferOptions): Promise<StoredManifest | null>;
  readManifest(repository: string, digest: string, maxBytes: number, options?: TransferOptions): Promise<Buffer | null>;
  listTags(repository: string, max: number, options?: TransferOptions): Promise<string[]>;
  deleteManifest(repository: string, digest: string, options?: TransferOptions): Promise<boolean>;
  pushArtifact(
    repository: string,
    artifact: PushOptions & { kind: ArtifactKind; stream: Content; tag?: string },
  ): Promise<PushedArtifact>;
  pullArtifact(repository: string, digest: string, options: PullOptions & { maxSizeBytes: number }): Promise<Readable>;
  /** Breaks off whatever is under way. */
  close(): Promise<void>;
};

export function createRegistry(clock: Clock, options: RegistryOptions): Registry {
  const transport = new Transport(clock, options);
  return {
    async ping() {
      const doing = `reach ${transport.origin.host}`;
      const answer = await transport.send({ method: "GET", path: "/v2/", repeatable: true, doing });
      await discard(answer);
      if (answer.statusCode !== 200) throw refused(doing, answer.statusCode);
    },
    pushBlob: (repository, content, more) => pushBlob(transport, repository, content, more),
    hasBlob: (repository, digest, more) => hasBlob(transport, repository, digest, more),
    sizeOfBlob: (repository, digest, more) => sizeOfBlob(transport, repository, digest, more),
    mountBlob: (repository, digest, from, more) => mountBlob(transport, repository, digest, from, more),
    pullBlob: (repository, digest, more) => pullBlob(transport, repository, digest, more),
    putManifest: (repository, manifest, more) => putManifest(transport, repository, manifest, more),
    getManifest: (repository, reference, more) => getManifest(transport, repository, reference, more),
    findManifest: (repository, reference, more) => findManifest(transport, repository, reference, more),
    readManifest: (repository, digest, max, more) => readManifest(transport, repository, digest, max, more),
    listTags: (repository, max, more) => listTags(transport, repository, max, more),
    deleteManifest: (repository, digest, more) => deleteManifest(transport, repository, digest, more),
    pushArtifact: (repository, artifact) => pushArtifact(transport, repository, artifact),
    pullArtifact: (repository, digest, more) => pullArtifact(transport, repository, digest, more),
    close: () => transport.close(),
    [Symbol.asyncDispose]: () => transport.close(),
  };
}
