import type { Readable } from "node:stream";
import type { StaticTarget } from "@svc/proto/edge";
import type { RegistryAccess } from "@svc/proto/node";
import { createRegistry, type IssuedToken, type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { bundleLimits } from "./place.ts";

/** The archive of a bundle; errors at its end unless it is exactly what the digest says. */
export type BundlePull = (target: StaticTarget, signal: AbortSignal) => Promise<Readable>;

/** Asks control for a token that reads one repository. */
export type AskToken = (repository: string, signal: AbortSignal) => Promise<IssuedToken>;

/** The cluster's registry, as control says where it is. What control does not let this edge at, it cannot read. */
export interface RegistryPull extends AsyncDisposable {
  pull: BundlePull;
  /** Both take effect for the next pull. Undefined changes nothing. */
  setAccess(access: RegistryAccess | undefined): void;
  setTokens(ask: AskToken): void;
}

const tokenTimeoutMs = 10_000;

export function createRegistryPull(clock: Clock): RegistryPull {
  let registry: Registry | null = null;
  let known = "";
  let ask: AskToken | null = null;

  async function tokenFor(repository: string, signal: AbortSignal | undefined): Promise<IssuedToken> {
    if (ask === null) throw new Error("control has not been reached yet");
    const timeout = clock.abortAfter(tokenTimeoutMs);
    return ask(repository, signal === undefined ? timeout : AbortSignal.any([signal, timeout]));
  }

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
      const { host, insecure } = access;
      const url = `${insecure ? "http" : "https"}://${host}`;
      if (url === known) return;
      known = url;
      // A pull that is under way ends with the old one, which nothing refers to then.
      registry = createRegistry(clock, { url, tokens: ([access], within) => tokenFor(access?.name ?? "", within) });
    },
    setTokens(next) {
      ask = next;
    },
    async [Symbol.asyncDispose]() {
      await registry?.close();
    },
  };
}
