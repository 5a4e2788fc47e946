import type { Readable } from "node:stream";
import type { StaticTarget } from "@svc/proto/edge";
import type { RegistryAccess } from "@svc/proto/node";
import { createRegistry, type Registry, RegistryError } from "@svc/registry";
import { bundleLimits } from "./place.ts";

/** The archive of a bundle; errors at its end unless it is exactly what the digest says. */
export type BundlePull = (target: StaticTarget, signal: AbortSignal) => Promise<Readable>;

/** The cluster's registry, as control says where it is and how to get in. */
export interface RegistryPull extends AsyncDisposable {
  pull: BundlePull;
  /** Takes effect for the next pull. Undefined changes nothing. */
  setAccess(access: RegistryAccess | undefined): void;
}

export function createRegistryPull(): RegistryPull {
  let registry: Registry | null = null;
  let known = "";
  return {
    async pull(target, signal) {
      if (registry === null) {
        throw new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", "control has not named the registry yet", {
          temporary: true,
        });
      }
      return registry.pullArtifact(target.repository, target.digest, {
        maxSizeBytes: bundleLimits.archiveBytesMax,
        signal,
      });
    },
    setAccess(access) {
      if (access === undefined || access.host === "") return;
      const { host, username, password, insecure } = access;
      const next = JSON.stringify([host, username, password, insecure]);
      if (next === known) return;
      known = next;
      // A pull that is under way ends with the old one, which nothing refers to then.
      registry = createRegistry({
        url: `${insecure ? "http" : "https"}://${host}`,
        ...(username !== "" && { username, password }),
      });
    },
    async [Symbol.asyncDispose]() {
      await registry?.close();
    },
  };
}
