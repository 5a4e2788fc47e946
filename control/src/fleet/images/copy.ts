import { Readable } from "node:stream";
import { type Descriptor, type Registry, RegistryError } from "@svc/registry";
import { eachOf } from "./each.ts";
import { ImageRefused } from "./failures.ts";
import type { InspectedImage } from "./inspect.ts";
import type { Origin } from "./origin.ts";
import { imageTooLarge } from "./rules.ts";
import type { KnownLayers, SharedLayers } from "./store.ts";
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
  known: KnownLayers;
  /** What is in the cluster's registry from the same place already; null: it is not asked. */
  shared: SharedLayers | null;
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

/** Asks what is there already. Only the copy's own repository counts. */
export async function lookForLayers(
  { image, origin, registry, repository, known }: CopyOptions,
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
  const { origin, registry, repository, known, shared, maxImageMb } = options;
  const { absent, unmeasured, sizes } = missing;
  const counted = budget(maxImageMb, [...sizes.values()]);

  const note = async (digest: string, unpackedBytes: number, from: string | null): Promise<void> => {
    await known.save(digest, unpackedBytes, from);
    sizes.set(digest, unpackedBytes);
  };

  /** Without moving a byte, from a repository whose content is the tenant's to read. */
  const mount = async ({ digest }: Descriptor, stop: AbortSignal): Promise<boolean> => {
    const mountFrom = (from: string) => registry.mountBlob(repository, digest, from, { signal: stop });
    if (origin.ownRepository !== null) return mountFrom(origin.ownRepository);
    const there = (await shared?.find(digest)) ?? null;
    if (there === null || !(await mountFrom(there.repository))) return false;
    await counted(async (count) => count(there.unpackedBytes));
    await note(digest, there.unpackedBytes, origin.name);
    return true;
  };

  const transfer = async (layer: Descriptor, stop: AbortSignal): Promise<void> => {
    const { digest, size: maxSizeBytes } = layer;
    const unpackedBytes = await counted(async (count) => {
      const content = Readable.from(measured(origin.read(layer, stop), count), { objectMode: false });
      await registry.pushBlob(repository, content, { digest, maxSizeBytes, signal: stop });
    });
    await note(digest, unpackedBytes, origin.name);
  };

  const bring = async (layer: Descriptor, stop: AbortSignal): Promise<void> => {
    if (await mount(layer, stop)) return;
    if (shared === null) return transfer(layer, stop);
    const bringAlone = async () => {
      // Whoever was at it before has brought it, or failed: then it is this one's turn.
      if (!(await mount(layer, stop))) await transfer(layer, stop);
    };
    await shared.alone(bringAlone, { key: layer.digest, signal: stop });
  };

  const measure = async (layer: Descriptor, stop: AbortSignal): Promise<void> => {
    const unpackedBytes = await counted(async (count) => {
      for await (const _ of measured(readBlob(registry, repository, layer, stop), count));
    });
    await note(layer.digest, unpackedBytes, null);
  };

  await eachOf([...absent, ...unmeasured], blobsAtOnce, signal, (layer, stop) =>
    repeated(stop, () => (absent.includes(layer) ? bring : measure)(layer, stop)),
  );
  await known.forgetOld();
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
