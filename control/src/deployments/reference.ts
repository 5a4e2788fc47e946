import { lookup } from "node:dns/promises";
import { hostProblem, isPublicAddress, parseImageReference, registryApiHost } from "@svc/proto";
import type { Config } from "../config.ts";

/** Judges whether the platform may fetch an image from where its reference says. */
export interface ReferencePolicy {
  /** Why the reference is refused, as a sentence; null when it is not. */
  problem(reference: string): Promise<string | null>;
}

/** Every address of a host name; empty when it has none. Rejects when the answer is not known. */
export type ResolveAddresses = (hostname: string, signal: AbortSignal) => Promise<string[]>;

const resolveTimeoutMs = 5_000;

export interface ReferenceRules {
  /** Private registries that the operator trusts, as host or host:port. */
  allow: readonly string[];
  /** host:port of the cluster's own registry: what it keeps for projects cannot be deployed by name. */
  ownRegistry: string;
}

export const referenceRules = (config: Pick<Config, "registryAllow" | "registry">): ReferenceRules => ({
  allow: config.registryAllow,
  ownRegistry: new URL(config.registry.url).host,
});

/** Repositories of the cluster's registry that belong to projects; see `repositories` in tasks/spec.ts. */
const projectRepositories = "svc/";

/**
 * The policy of an installation: a public name whose every address is public, or a registry that the operator
 * allows. The pull judges the addresses once more when it dials, so a name that changes in between gains nothing.
 */
export function createReferencePolicy(
  { allow, ownRegistry }: ReferenceRules,
  resolve: ResolveAddresses = resolveAddresses,
): ReferencePolicy {
  return {
    async problem(text) {
      const reference = parseImageReference(text);
      if ("problem" in reference) return reference.problem;
      const { registry, repository } = reference;
      if (registry === ownRegistry && repository.startsWith(projectRepositories))
        return "Artifacts of projects cannot be deployed by name. Promote or roll back their deployment instead.";
      const problem = hostProblem(registry, allow);
      if (problem !== null || allow.includes(registry)) return problem;
      const hostname = registryApiHost(registry).replace(/:\d+$/, "");
      let addresses: string[];
      try {
        addresses = await resolve(hostname, AbortSignal.timeout(resolveTimeoutMs));
      } catch {
        return `The address of "${registry}" could not be looked up. Try again.`;
      }
      if (addresses.length === 0) return `"${registry}" has no address.`;
      // One public address among private ones would be enough to be dialled, so all of them count.
      return addresses.every(isPublicAddress) ? null : `"${registry}" is not on the public internet.`;
    },
  };
}

/** As the system resolves names, which is also how the pull finds the registry. */
async function resolveAddresses(hostname: string, signal: AbortSignal): Promise<string[]> {
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
  );
  try {
    const found = await Promise.race([lookup(hostname, { all: true, verbatim: true }), aborted]);
    return found.map(({ address }) => address);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTFOUND") return [];
    throw error;
  }
}
