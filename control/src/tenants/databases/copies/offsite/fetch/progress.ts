import { createHash } from "node:crypto";
import type { CopyManifest } from "../objects.ts";

export type ManifestPart = CopyManifest["parts"][number];

/** How many of the first objects of a manifest are whole on a node, and a digest of all that the manifest had of them. */
export interface FetchProgress {
  objects: number;
  digest: string;
}

const nothing: FetchProgress = { objects: 0, digest: "" };

/** The same with the next object. `parts`: all that the manifest has of it. */
export const withObject = ({ objects, digest }: FetchProgress, parts: readonly ManifestPart[]): FetchProgress => ({
  objects: objects + 1,
  digest: createHash("sha256").update(digest).update(JSON.stringify(parts)).digest("hex"),
});

/** Whether a turn wrote anything: there are more whole objects, or others, since the copy was put off-site anew. */
export const hasAdvanced = (before: FetchProgress | null, after: FetchProgress | null): boolean =>
  after !== null && after.objects > 0 && after.digest !== before?.digest;

/**
 * How much of a manifest is on its node already. Its copy may have been put off-site anew since: what is not the beginning of this
 * manifest, byte for byte, counts for nothing.
 *
 * @param objects what the manifest has of each, in its order
 */
export function progressIn(objects: readonly (readonly ManifestPart[])[], saved: FetchProgress | null): FetchProgress {
  if (saved === null) return nothing;
  const found = objects.slice(0, saved.objects).reduce(withObject, nothing);
  return found.digest === saved.digest ? found : nothing;
}
