import { EngineError } from "./errors.ts";

/** Drivers that keep a layer to a size on any disk that they work on. */
const always = new Set(["btrfs", "zfs"]);

/**
 * Whether it is worth asking for a size of a container's own layer. On xfs it depends on how the disk was mounted, which
 * the engine says only once it is asked for one.
 *
 * @param status pairs of what the driver says of itself
 */
export function mayLimitLayers(driver: string, status: readonly (readonly string[])[]): boolean {
  const backing = status.find(([name]) => name === "Backing Filesystem")?.[1];
  return always.has(driver) || (driver === "overlay2" && backing === "xfs");
}

/** Whether a container was refused because of the size of its layer, and would be made without. */
export const isSizeRefusal = (cause: unknown): boolean =>
  cause instanceof EngineError && cause.kind === "failed" && /storage-opt|quota/i.test(cause.message);
