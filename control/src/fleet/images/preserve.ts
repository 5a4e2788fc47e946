import { type OciManifest, ociManifestSchema } from "@svc/proto";

/**
 * The manifest of an image deployment whose sender names only what changes, over that of an earlier one: what
 * `written` names wins, and the rest stays as it was, the settings of `health` one by one. Only where the earlier one
 * went does not count: the channel is chosen anew each time. `written` is the manifest as it was sent, before defaults
 * were added, and one that the schema accepts.
 */
export function preserveManifest(written: Readonly<Record<string, unknown>>, earlier: OciManifest): OciManifest {
  const { channel: _, ...kept } = earlier;
  const health = { ...kept.health, ...(isObject(written["health"]) ? written["health"] : {}) };
  return ociManifestSchema.parse({ ...kept, ...written, health });
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
