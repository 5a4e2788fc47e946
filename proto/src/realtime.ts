// @pure
import { isOciManifest, type Manifest } from "./manifest.ts";

/** The package of which the platform has something to say. */
export const realtimePackage = "@svc/realtime";

/** What is wrong where events reach a part of the visitors only, and what to do. */
export const splitEvents = {
  problem: `The app uses ${realtimePackage} in several replicas and has no database: an event reaches only the visitors of the replica that publishes it.`,
  cure: `Write database: { enabled: true } into the manifest and give createRealtime the adapter of ${realtimePackage}/postgres, or run one replica (app.replicas: 1). Where an adapter of another kind carries events, all is well.`,
} as const;

/** Whether events of an app that depends on these packages may reach a part of its visitors only. `hasDatabase`: that its channel has one. */
export function areEventsSplit(
  manifest: Manifest,
  { packages, hasDatabase }: { packages: Iterable<string>; hasDatabase: boolean },
): boolean {
  if (isOciManifest(manifest) || manifest.app.type === "static") return false;
  if (hasDatabase || manifest.database?.enabled === true) return false;
  return manifest.app.replicas > 1 && [...packages].includes(realtimePackage);
}
