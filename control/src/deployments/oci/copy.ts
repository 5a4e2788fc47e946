import { Readable } from "node:stream";
import { type Descriptor, type Registry, RegistryError } from "@svc/registry";
import { eachOf } from "./each.ts";
import { ImageRefused } from "./failures.ts";
import type { InspectedImage } from "./inspect.ts";
import type { Origin } from "./origin.ts";
import { imageTooLarge } from "./rules.ts";
import type { LayerSizes } from "./store.ts";
import { type CountBytes, measured } from "./unpacked.ts";

/** Each holds one piece of a blob in memory. */
const blobsAtOnce = 3;
const looksAtOnce = 8;
const attemptsMax = 3;
const bytesPerMb = 1024 * 1024;

export interface CopyOptions {
  image: InspectedImage;
  origin: Origin;
  /** Where it goes in the cluster's registry. */
  registry: Registry;
  repository: string;
  /** What is known of layers that were there before. */
  sizes: LayerSizes;
  maxImageMb: number;
  /** The tag under which the copy can be found; without one only by its digest. */
  tag?: string;
}

/** What of an image its repository lacks. */
export interface Missing {
  /** To be brought there. */
  absent: Descriptor[];
  /** There, but nobody knows what they unpack to. */
  unmeasured: Descriptor[];
  /** Unpacked bytes of what is there, as far as they are known; what is brought adds to them. */
  sizes: Map<string, number>;
}

/** Asks what is there already. Only the copy's own repository counts: that another one has a layer proves nothing. */
export async function lookForLayers(
  { image, origin, registry, repository, sizes: known }: CopyOptions,
  signal: AbortSignal,
): Promise<Missing> {
  const layers = [...new Map(image.layers.map((layer) => [layer.digest, layer])).values()];
  const digests = layers.map(({ digest }) => digest);
  const sizes = await known.find(digests);
  const present = new Map<string, boolean>();
  await eachOf(layers, looksAtOnce, signal, async ({ digest }, stop) => {
    present.set(digest, await registry.hasBlob(repository, digest, { signal: stop }));
  });
  const there = layers.filter(({ digest }) => present.get(digest));
  const absent = layers.filter(({ digest }) => !present.get(digest));
  // They are counted as they come.
  for (const { digest } of absent) sizes.delete(digest);
  return {
    absent,
    // What the operator keeps in the cluster's registry is not unpacked to see how large it is; nodes check it too.
    unmeasured: origin.ownRepository === null ? there.filter(({ digest }) => !sizes.has(digest)) : [],
    sizes,
  };
}

/**
 * Brings what is missing, three layers at a time, each checked against its digest, its size and the plan while it
 * passes. One that was broken off is tried again from its start. Throws ImageRefused, or BadLayer.
 */
export async function copyLayers(options: CopyOptions, missing: Missing, signal: AbortSignal): Promise<void> {
  const { origin, registry, repository, maxImageMb } = options;
  const { absent, unmeasured, sizes } = missing;
  const counted = budget(maxImageMb, [...sizes.values()]);

  const bring = async (layer: Descriptor, stop: AbortSignal): Promise<void> => {
    const { digest, size: maxSizeBytes } = layer;
    const isHere = !absent.includes(layer);
    if (!isHere && origin.ownRepository !== null) {
      if (await registry.mountBlob(repository, digest, origin.ownRepository, { signal: stop })) return;
    }
    const source = isHere ? readBlob(registry, repository, layer, stop) : origin.read(layer, stop);
    const unpackedBytes = await counted(async (count) => {
      const content = Readable.from(measured(source, count), { objectMode: false });
      if (isHere) for await (const _ of content);
      else await registry.pushBlob(repository, content, { digest, maxSizeBytes, signal: stop });
    });
    await options.sizes.save(digest, unpackedBytes);
    sizes.set(digest, unpackedBytes);
  };

  await eachOf([...absent, ...unmeasured], blobsAtOnce, signal, (layer, stop) =>
    repeated(stop, () => bring(layer, stop)),
  );
  await options.sizes.forgetOld();
}

/** Throws ImageRefused for an image that unpacks to more than the plan allows, as far as that is known. */
export function requireFits({ image, maxImageMb }: CopyOptions, { sizes }: Missing): void {
  // A layer may be in an image more than once, and unpacks as often.
  const total = image.layers.reduce((sum, { digest }) => sum + (sizes.get(digest) ?? 0), 0);
  if (total > maxImageMb * bytesPerMb) throw new ImageRefused(imageTooLarge(total, maxImageMb));
}

async function* readBlob(registry: Registry, repository: string, blob: Descriptor, signal: AbortSignal) {
  yield* (await registry.pullBlob(repository, blob.digest, { sizeBytes: blob.size, signal })) as AsyncIterable<Buffer>;
}

/** Stores description and manifest, unless they are there. Last of all: what has a manifest is whole. */
export async function storeManifest(
  { image, registry, repository, tag }: CopyOptions,
  signal: AbortSignal,
): Promise<void> {
  await registry.pushBlob(repository, image.config, { signal });
  const { mediaType } = image;
  await registry.putManifest(repository, image.bytes, { mediaType, signal, ...(tag !== undefined && { tag }) });
}

/** Adds up what all layers together unpack to, and throws as soon as it is more than the plan allows. */
function budget(maxImageMb: number, known: readonly number[]) {
  let total = known.reduce((sum, size) => sum + size, 0);
  return async (work: (count: CountBytes) => Promise<void>): Promise<number> => {
    let own = 0;
    try {
      await work((bytes) => {
        own += bytes;
        total += bytes;
        if (total > maxImageMb * bytesPerMb) throw new ImageRefused(imageTooLarge(total, maxImageMb));
      });
      return own;
    } catch (error) {
      total -= own;
      throw error;
    }
  };
}

async function repeated(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const mayHelp = (error instanceof ImageRefused || error instanceof RegistryError) && error.temporary;
      if (!mayHelp || attempt === attemptsMax || signal.aborted) throw error;
    }
  }
}
