import { devicesOf, heldOpenBytes } from "../storage/held-open.ts";
import { layerDirectory, readMounts, writableLayers } from "../storage/overlays.ts";
import { bytesBelow } from "../storage/written.ts";

/** What a step has to write to, as the engine's builder describes it. */
export interface StepPlaces {
  /** Where its root is mounted. */
  root: string;
  /** What is bound into it to be written to: caches, and mounts whose changes are thrown away. */
  bound: readonly string[];
}

/** Adds up what the steps of one build write to the disk. */
export interface StepStorage {
  /** From now on what is written there counts. What a cache holds already is of earlier builds. */
  add(places: StepPlaces): Promise<void>;
  /** Bytes that were written so far; those of files without a name while `pids` hold them. More than `enough` is not told apart. */
  written(pids: readonly number[], enough: number): Promise<number>;
  /** Nothing is written any more: remembers what caches hold now. */
  settle(): Promise<void>;
}

/** So many caches are remembered by their size. Of what is forgotten, all files are looked at once more. */
const cachesMax = 1_000;

/**
 * @param caches what caches held at the end of the build before, for all builds of a node: to find it out at the beginning
 *   takes time, in which a step has written to it already
 */
export function createStepStorage(caches: Map<string, number>, engineDir: () => Promise<string>): StepStorage {
  /** A step's own layers, with what each held when it was there last. */
  const layers = new Map<string, number>();
  /** Places that were there before their first step: what they held then, null until it is known, and at most since. */
  const shared = new Map<string, { before: number | null; most: number }>();

  return {
    async add({ root, bound }) {
      const upper = writableLayers(await readMounts("self"));
      for (const place of [root, ...bound]) {
        const mounted = upper.get(place);
        const layer = mounted === undefined ? undefined : layerDirectory(mounted, await engineDir());
        if (layer !== undefined) layers.set(layer, layers.get(layer) ?? 0);
        else if (!shared.has(place)) {
          shared.set(place, { before: null, most: 0 });
          const found = caches.get(place) ?? (await bytesBelow(place, Number.POSITIVE_INFINITY, "length")) ?? 0;
          // What is too deep to be reached may hide anything, and ends the build.
          const before = Number.isFinite(found) ? found : 0;
          shared.set(place, { before, most: before });
        }
      }
    },
    async written(pids, enough) {
      let sum = 0;
      for (const [layer, known] of layers) {
        // What a cancelled step leaves goes at once, and that of a finished one stays.
        const bytes = (await bytesBelow(layer, enough - sum, "length")) ?? known;
        layers.set(layer, bytes);
        sum += bytes;
        if (sum > enough) return sum;
      }
      for (const [place, { before, most }] of shared) {
        if (before === null) continue;
        const bytes = (await bytesBelow(place, before + enough - sum, "length")) ?? 0;
        const peak = Math.max(most, bytes);
        shared.set(place, { before, most: peak });
        sum += peak - before;
        if (sum > enough) return sum;
      }
      const roots = pids.map((pid) => `/proc/${pid}/root/`);
      const devices = await devicesOf([...roots, ...layers.keys(), ...shared.keys()]);
      return sum + (await heldOpenBytes(pids, devices, enough - sum));
    },
    async settle() {
      for (const place of shared.keys()) {
        const bytes = await bytesBelow(place, Number.POSITIVE_INFINITY, "length");
        if (caches.size >= cachesMax) caches.clear();
        if (bytes === null) caches.delete(place);
        else caches.set(place, bytes);
      }
    },
  };
}
