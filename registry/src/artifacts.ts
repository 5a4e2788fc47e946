import type { Readable } from "node:stream";
import { type Content, type PullOptions, type PushOptions, pullBlob, pushBlob, type Stored } from "./blobs.ts";
import { RegistryError } from "./errors.ts";
import { getManifest, ociManifestType, putManifest } from "./manifests.ts";
import type { Transport } from "./transport.ts";

/** What we keep in the registry besides images: a packed source tree, a built static site, a database as SQL, a picture of a site. */
export type ArtifactKind = "source" | "bundle" | "backup" | "screenshot";

const layerTypes = { source: "tar+gzip", bundle: "tar+gzip", backup: "sql+gzip", screenshot: "png" } as const;

const configType = (kind: ArtifactKind): string => `application/vnd.svc.${kind}.v1+json`;
const layerType = (kind: ArtifactKind): string => `application/vnd.svc.${kind}.v1.${layerTypes[kind]}`;
const kinds = ["source", "bundle", "backup", "screenshot"] as const satisfies readonly ArtifactKind[];

export type PushedArtifact = Stored & {
  /** Of the one layer: the content itself. */
  layerDigest: string;
};

/**
 * Stores a gzipped tar, gzipped SQL, or a picture, as an artifact, also under `tag` when there is one. `digest` is the manifest's, by
 * which it is pulled again; `sizeBytes` is the layer's.
 */
export async function pushArtifact(
  transport: Transport,
  repository: string,
  { kind, stream, tag, ...options }: PushOptions & { kind: ArtifactKind; stream: Content; tag?: string },
): Promise<PushedArtifact> {
  const layer = await pushBlob(transport, repository, stream, options);
  const config = await pushBlob(transport, repository, Buffer.from("{}"), { signal: options.signal });
  const manifest = {
    schemaVersion: 2 as const,
    mediaType: ociManifestType,
    config: { mediaType: configType(kind), digest: config.digest, size: config.sizeBytes },
    layers: [{ mediaType: layerType(kind), digest: layer.digest, size: layer.sizeBytes }],
  };
  const { digest } = await putManifest(transport, repository, manifest, tag === undefined ? {} : { tag });
  return { digest, sizeBytes: layer.sizeBytes, layerDigest: layer.digest };
}

/** The gzipped content of an artifact; errors at its end unless it is exactly what was pushed. */
export async function pullArtifact(
  transport: Transport,
  repository: string,
  digest: string,
  options: PullOptions & { maxSizeBytes: number },
): Promise<Readable> {
  const { manifest } = await getManifest(transport, repository, digest);
  const [layer, ...more] = manifest.layers ?? [];
  const known = kinds.find((kind) => manifest.config?.mediaType === configType(kind));
  if (layer === undefined || more.length > 0 || known === undefined || layer.mediaType !== layerType(known))
    throw new RegistryError("ARTIFACT_NOT_FOUND", `${digest} in ${repository} is not an artifact of ours`);
  if (layer.size > options.maxSizeBytes)
    throw new RegistryError("ARTIFACT_TOO_LARGE", `${digest}: ${layer.size} bytes, more than ${options.maxSizeBytes}`);
  return pullBlob(transport, repository, layer.digest, { ...options, sizeBytes: layer.size });
}
