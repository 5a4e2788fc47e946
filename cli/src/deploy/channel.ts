import type { Channel, DeployMode, Manifest } from "@svc/proto";

/** The channel that a deploy will have: the one that is forced, else by the project's mode. Null where the key may not read that. */
export function predictChannel(manifest: Manifest, target: { deployMode: DeployMode | null } | null): Channel | null {
  if (manifest.channel !== undefined) return manifest.channel;
  const mode = target === null ? "auto" : target.deployMode;
  return mode === null ? null : mode === "preview" ? "preview" : "production";
}
