import { lookup } from "node:dns/promises";
import { hostProblem, isPublicAddress, parseImageReference, registryApiHost } from "@svc/proto";

/** Judges whether the platform may fetch an image from where its reference says. */
export interface ReferencePolicy {
  /** Why the reference is refused, as a sentence; null when it is not. */
  problem(reference: string): Promise<string | null>;
}

/** Every address of a host name; empty when it has none. Rejects when the answer is not known. */
export type ResolveAddresses = (hostname: string, signal: AbortSignal) => Promise<string[]>;

const resolveTimeoutMs = 5_000;

/**
 * The policy of an installation: a public name whose every address is public, or a registry that the operator
 * listed in `allow`. The pull judges the addresses once more when it dials, so a name that changes in between gains nothing.
 */
export function createReferencePolicy(
  allow: readonly string[],
  resolve: ResolveAddresses = resolveAddresses,
): ReferencePolicy {
  return {
    async problem(text) {
      const reference = parseImageReference(text);
      if ("problem" in reference) return reference.problem;
      const { registry } = reference;
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
