import {
  type Descriptor,
  type FoundManifest,
  imageManifestTypes,
  ociManifestType,
  type Registry,
  RegistryError,
} from "@svc/registry";
import { ImageRefused } from "./failures.ts";
import type { Origin } from "./origin.ts";
import { choosePlatform, judgeConfig, type Platform, partsOf, type Refusal, type Wanted } from "./rules.ts";

/** An image that was looked at and may be copied. */
export interface InspectedImage extends Platform {
  digest: string;
  /** The manifest, as its digest is of. */
  bytes: Buffer;
  mediaType: string;
  config: Buffer;
  layers: readonly Descriptor[];
  /** Of config and layers, as they are transferred. */
  sizeBytes: number;
}

export interface InspectOptions extends Wanted {
  origin: Origin;
  /** The cluster's registry, and the copy's repository there: what it has need not be asked for. */
  registry: Registry;
  repository: string;
  maxImageMb: number;
  signal: AbortSignal;
}

/**
 * Finds out what a reference stands for: one image for one platform, by its digest. A tag is asked for once, here;
 * everything after uses the digest. Throws ImageRefused for an image that may not or cannot run.
 */
export async function inspectImage(reference: string, options: InspectOptions): Promise<InspectedImage> {
  const { origin, platforms, maxImageMb, signal } = options;
  const known = await findOwn(options, reference);
  const named = known ?? (await origin.getManifest(reference, signal));
  const { manifests } = named.manifest;
  const chosen = manifests === undefined ? null : choosePlatform(manifests, platforms);
  if (manifests !== undefined && chosen === null) throw refused({ code: "OCI_PLATFORM_UNSUPPORTED", message: "" });
  const image =
    chosen === null
      ? named
      : ((await findOwn(options, chosen.digest)) ?? (await origin.getManifest(chosen.digest, signal)));

  const parts = accepted(partsOf(image, maxImageMb));
  const config = await readConfig(options, parts.config);
  const platform = accepted(judgeConfig(config.toString("utf8"), parts.layers.length, options));
  return {
    ...platform,
    digest: image.digest,
    bytes: image.bytes,
    mediaType: typeOf(image),
    config,
    layers: parts.layers,
    sizeBytes: image.contentBytes,
  };
}

const refused = (refusal: Refusal) => new ImageRefused(refusal);

function accepted<T extends object>(judged: T | Refusal): T {
  if ("code" in judged) throw refused(judged);
  return judged;
}

/** Only a Docker manifest has to say what it is; a registry is not asked what it thinks. */
function typeOf({ manifest }: FoundManifest): string {
  const { mediaType = ociManifestType } = manifest;
  if (!imageManifestTypes.includes(mediaType)) throw refused({ code: "OCI_INSPECT_FAILED", message: "" });
  return mediaType;
}

/** What was copied of this digest before; null for a tag, which only its registry knows. */
async function findOwn(
  { registry, repository, signal }: InspectOptions,
  reference: string,
): Promise<FoundManifest | null> {
  if (!reference.includes(":")) return null;
  return orNull(registry.getManifest(repository, reference, { signal }));
}

async function readConfig(options: InspectOptions, blob: Descriptor): Promise<Buffer> {
  const { origin, registry, repository, signal } = options;
  const own = await orNull(registry.pullBlob(repository, blob.digest, { sizeBytes: blob.size, signal }));
  const parts: Buffer[] = [];
  for await (const part of own ?? origin.read(blob, signal)) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** Null for what is not there. */
async function orNull<T>(found: Promise<T>): Promise<T | null> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof RegistryError && error.code === "ARTIFACT_NOT_FOUND") return null;
    throw error;
  }
}
