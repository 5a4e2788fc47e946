import { isDigest } from "@svc/proto/image";
import { bounded, lengthOf, type Stored, type TransferOptions } from "./blobs.ts";
import { digestOf } from "./digest.ts";
import { MalformedManifest, RegistryError, refused, unavailable } from "./errors.ts";
import { manifestPath, repositoryPath } from "./paths.ts";
import { type Answer, discard, readBody, readStart, type Transport } from "./transport.ts";

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
/** What registries themselves accept. */
export const manifestBytesMax = 4 * 1024 * 1024;

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  /** Other places to fetch it from. Whoever pulls by itself may follow them. */
  urls?: unknown;
}

/** A manifest as far as we read it: images have config and layers, indexes have manifests. */
export interface OciManifest {
  schemaVersion?: 2;
  mediaType?: string;
  config?: Descriptor;
  layers?: Descriptor[];
  manifests?: (Descriptor & { platform?: { os: string; architecture: string } })[];
}

export interface FoundManifest {
  manifest: OciManifest;
  /** Exactly as it was delivered: what the digest is of. */
  bytes: Buffer;
  digest: string;
  mediaType: string;
  /** Of the manifest itself. */
  sizeBytes: number;
  /** Of config and layers together as they are transferred; 0 for an index. */
  contentBytes: number;
}

/** Reads a manifest; one that is asked for by digest is checked against it, and so is what the registry says of a tag. */
export async function getManifest(
  transport: Transport,
  repository: string,
  reference: string,
  { signal }: TransferOptions = {},
): Promise<FoundManifest> {
  const doing = `read the manifest ${reference} of ${repository}`;
  const answer = await ask(transport, "GET", repository, reference, doing, signal);
  if (answer === null) throw new RegistryError("ARTIFACT_NOT_FOUND", `${doing}: not there`);
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

/** A manifest that is there, whatever it says. */
export type StoredManifest = Stored & {
  /** Of several images. */
  isIndex: boolean;
};

/**
 * What the registry calls a manifest, and how large it is, without reading it; null when there is none. The reference
 * registry fails with 500 for the digest of a blob that is no manifest.
 */
export async function findManifest(
  transport: Transport,
  repository: string,
  reference: string,
  { signal }: TransferOptions = {},
): Promise<StoredManifest | null> {
  const doing = `look for the manifest ${reference} of ${repository}`;
  const answer = await ask(transport, "HEAD", repository, reference, doing, signal);
  if (answer === null) return null;
  await discard(answer);
  const digest = answer.headers["docker-content-digest"];
  if (typeof digest !== "string" || !isDigest(digest)) throw unavailable(`${doing}: the registry names no digest`);
  const type = String(answer.headers["content-type"]).split(";")[0] ?? "";
  return { digest, sizeBytes: lengthOf(answer, doing), isIndex: !imageManifestTypes.includes(type) };
}

/** A manifest as it is stored, whatever it says; null when there is none. */
export async function readManifest(
  transport: Transport,
  repository: string,
  digest: string,
  maxBytes: number,
  { signal }: TransferOptions = {},
): Promise<Buffer | null> {
  const doing = `read the manifest ${digest} of ${repository}`;
  const answer = await ask(transport, "GET", repository, digest, doing, signal);
  return answer === null ? null : readBody(answer, maxBytes, doing);
}

/** The answer that has the manifest, or what is said of it; null when there is none. */
async function ask(
  transport: Transport,
  method: "GET" | "HEAD",
  repository: string,
  reference: string,
  doing: string,
  signal: AbortSignal | undefined,
): Promise<Answer | null> {
  const answer = await transport.send({
    method,
    path: manifestPath(repository, reference),
    headers: { accept: manifestTypes.join(", ") },
    repeatable: true,
    ...(method === "HEAD" && { again: [429, 502, 503, 504] }),
    redirects: true,
    signal: bounded(transport, signal),
    doing,
  });
  if (answer.statusCode === 200) return answer;
  await discard(answer);
  if (answer.statusCode === 404) return null;
  throw refused(doing, answer.statusCode);
}

const tagListBytesMax = 1024 * 1024;

/**
 * The first `max` tags of a repository, in the registry's order; none where there is no such repository. Some registries
 * answer with all of them, however many: the rest is not read.
 */
export async function listTags(
  transport: Transport,
  repository: string,
  max: number,
  { signal }: TransferOptions = {},
): Promise<string[]> {
  const doing = `list the tags of ${repository}`;
  const path = `${repositoryPath(repository)}/tags/list?n=${max}`;
  const answer = await transport.send({ method: "GET", path, repeatable: true, signal, doing });
  if (answer.statusCode !== 200) {
    await discard(answer);
    if (answer.statusCode === 404) return [];
    throw refused(doing, answer.statusCode);
  }
  const { bytes, isWhole } = await readStart(answer, tagListBytesMax, doing);
  const text = bytes.toString("utf8");
  // Of a list that is cut off, what comes before the last comma is whole.
  const { tags } = Object(JSON.parse(isWhole ? text : `${text.slice(0, text.lastIndexOf(","))}]}`));
  return Array.isArray(tags) ? tags.filter((tag): tag is string => typeof tag === "string").slice(0, max) : [];
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
