import { isDigest } from "@svc/proto/image";
import { bounded, type Stored, type TransferOptions } from "./blobs.ts";
import { digestOf } from "./digest.ts";
import { MalformedManifest, RegistryError, refused } from "./errors.ts";
import { manifestPath } from "./paths.ts";
import { discard, readBody, type Transport } from "./transport.ts";

export const ociManifestType = "application/vnd.oci.image.manifest.v1+json";
/** Of one image, for one platform. */
export const imageManifestTypes: readonly string[] = [
  ociManifestType,
  "application/vnd.docker.distribution.manifest.v2+json",
];
const manifestTypes = [
  ...imageManifestTypes,
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
];
// What registries themselves accept.
const manifestBytesMax = 4 * 1024 * 1024;

export type Descriptor = {
  mediaType: string;
  digest: string;
  size: number;
  /** Other places to fetch it from. Whoever pulls by itself may follow them. */
  urls?: unknown;
};

/** A manifest as far as we read it: images have config and layers, indexes have manifests. */
export type OciManifest = {
  schemaVersion?: 2;
  mediaType?: string;
  config?: Descriptor;
  layers?: Descriptor[];
  manifests?: (Descriptor & { platform?: { os: string; architecture: string } })[];
};

export type FoundManifest = {
  manifest: OciManifest;
  /** Exactly as it was delivered: what the digest is of. */
  bytes: Buffer;
  digest: string;
  mediaType: string;
  /** Of the manifest itself. */
  sizeBytes: number;
  /** Of config and layers together as they are transferred; 0 for an index. */
  contentBytes: number;
};

/** Reads a manifest; one that is asked for by digest is checked against it, and so is what the registry says of a tag. */
export async function getManifest(
  transport: Transport,
  repository: string,
  reference: string,
  { signal }: TransferOptions = {},
): Promise<FoundManifest> {
  const doing = `read the manifest ${reference} of ${repository}`;
  const answer = await transport.send({
    method: "GET",
    path: manifestPath(repository, reference),
    headers: { accept: manifestTypes.join(", ") },
    repeatable: true,
    redirects: true,
    signal: bounded(transport, signal),
    doing,
  });
  if (answer.statusCode !== 200) {
    await discard(answer);
    if (answer.statusCode === 404) throw new RegistryError("ARTIFACT_NOT_FOUND", `${doing}: not there`);
    throw refused(doing, answer.statusCode);
  }
  const bytes = await readBody(answer, manifestBytesMax, doing).catch((error: unknown) => {
    const isTooLarge = error instanceof RegistryError && error.code === "ARTIFACT_TOO_LARGE";
    throw isTooLarge ? new MalformedManifest(error.message, error) : error;
  });
  const digest = digestOf(bytes);
  const told = answer.headers["docker-content-digest"];
  const wanted = isDigest(reference) ? reference : typeof told === "string" && isDigest(told) ? told : digest;
  if (digest !== wanted)
    throw new RegistryError("ARTIFACT_DIGEST_MISMATCH", `${doing}: the content has another digest`);
  const manifest = parse(bytes, doing);
  const type = manifest.mediaType ?? answer.headers["content-type"];
  const parts = [...(manifest.config === undefined ? [] : [manifest.config]), ...(manifest.layers ?? [])];
  return {
    manifest,
    bytes,
    digest,
    mediaType: typeof type === "string" ? type : ociManifestType,
    sizeBytes: bytes.length,
    contentBytes: parts.reduce((sum, part) => sum + part.size, 0),
  };
}

function parse(bytes: Buffer, doing: string): OciManifest {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw new MalformedManifest(`${doing}: not JSON`, cause);
  }
  if (!isManifest(value)) throw new MalformedManifest(`${doing}: not a manifest`);
  return value;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isDescriptor = (value: unknown): value is Descriptor =>
  isRecord(value) &&
  typeof value["mediaType"] === "string" &&
  typeof value["digest"] === "string" &&
  isDigest(value["digest"]) &&
  Number.isSafeInteger(value["size"]) &&
  Number(value["size"]) >= 0;

const isDescriptorList = (value: unknown): boolean =>
  value === undefined || (Array.isArray(value) && value.every(isDescriptor));

const isManifest = (value: unknown): value is OciManifest =>
  isRecord(value) &&
  (value["mediaType"] === undefined || typeof value["mediaType"] === "string") &&
  (value["config"] === undefined || isDescriptor(value["config"])) &&
  isDescriptorList(value["layers"]) &&
  isDescriptorList(value["manifests"]);

/** Stores a manifest, by its digest or under a tag. What it refers to has to be there already. */
export async function putManifest(
  transport: Transport,
  repository: string,
  manifest: OciManifest | Buffer,
  options: TransferOptions & { tag?: string; mediaType?: string } = {},
): Promise<Stored> {
  const body = Buffer.isBuffer(manifest) ? manifest : Buffer.from(JSON.stringify(manifest));
  const digest = digestOf(body);
  const doing = `store the manifest ${digest} in ${repository}`;
  const ownType = Buffer.isBuffer(manifest) ? undefined : manifest.mediaType;
  const answer = await transport.send({
    method: "PUT",
    path: manifestPath(repository, options.tag ?? digest),
    headers: { "content-type": options.mediaType ?? ownType ?? ociManifestType },
    body,
    repeatable: true,
    // 400 is also said of a blob that somebody else is just storing again: a moment later it is there.
    again: [400, 429, 500, 502, 503, 504],
    signal: bounded(transport, options.signal),
    doing,
  });
  await discard(answer);
  if (answer.statusCode !== 201) throw refused(doing, answer.statusCode);
  const told = answer.headers["docker-content-digest"];
  if (told !== undefined && told !== digest)
    throw new RegistryError("ARTIFACT_DIGEST_MISMATCH", `${doing}: the registry stored ${String(told)}`);
  return { digest, sizeBytes: body.length };
}

/** Whether there was one to delete. The blobs go with the registry's own garbage collection. */
export async function deleteManifest(
  transport: Transport,
  repository: string,
  digest: string,
  { signal }: TransferOptions = {},
): Promise<boolean> {
  const doing = `delete the manifest ${digest} of ${repository}`;
  const answer = await transport.send({
    method: "DELETE",
    path: manifestPath(repository, digest),
    repeatable: true,
    doing,
    signal,
  });
  await discard(answer);
  if (answer.statusCode === 404) return false;
  if (answer.statusCode !== 202) throw refused(doing, answer.statusCode);
  return true;
}
