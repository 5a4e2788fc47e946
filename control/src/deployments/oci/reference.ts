import { hostProblem, parseImageReference, registryApiHost } from "@svc/proto";
import type { Config } from "../../config.ts";
import { ApiError } from "../../http/errors.ts";
import { publicAddresses } from "../../registries/egress.ts";
import { type ResolveAddresses, systemAddresses } from "../../registries/resolve.ts";

export type { ResolveAddresses } from "../../registries/resolve.ts";

/** Judges whether the platform may fetch an image from where its reference says. */
export interface ReferencePolicy {
  /** Why the reference is refused, as a sentence; null when it is not. */
  problem(reference: string): Promise<string | null>;
  /** Why there can be no credential for a registry, by the same rules. `host` is normalised. */
  registryProblem(host: string): Promise<string | null>;
}

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

/** What stands against a reference by its text alone; null when only the registry's addresses are left to be judged. */
export function referenceProblem(text: string, { allow, ownRegistry }: ReferenceRules): string | null {
  const reference = parseImageReference(text);
  if ("problem" in reference) return reference.problem;
  const { registry, repository } = reference;
  if (registry === ownRegistry && repository.startsWith(projectRepositories))
    return "Artifacts of projects cannot be deployed by name. Promote or roll back their deployment instead.";
  return hostProblem(registry, allow);
}

/**
 * The policy of an installation: a public name whose every address is public, or a registry that the operator
 * allows. Whoever dials judges the addresses once more, so a name that changes in between gains nothing.
 */
export function createReferencePolicy(
  rules: ReferenceRules,
  resolve: ResolveAddresses = systemAddresses,
): ReferencePolicy {
  const addressProblem = async (registry: string): Promise<string | null> => {
    if (rules.allow.includes(registry)) return null;
    const hostname = registryApiHost(registry).replace(/:\d+$/, "");
    let addresses: string[] | "private";
    try {
      addresses = await publicAddresses(resolve, hostname);
    } catch (cause) {
      // Nobody's mistake: the resolver is away.
      throw new ApiError("UNAVAILABLE", {
        message: `The address of "${registry}" could not be looked up. Try again in a moment.`,
        cause,
      });
    }
    if (addresses === "private") return `"${registry}" is not on the public internet.`;
    return addresses.length === 0 ? `"${registry}" has no address.` : null;
  };
  return {
    async problem(text) {
      const problem = referenceProblem(text, rules);
      if (problem !== null) return problem;
      const reference = parseImageReference(text);
      return "problem" in reference ? reference.problem : addressProblem(reference.registry);
    },
    async registryProblem(host) {
      if (host === rules.ownRegistry) return "The platform's own registry takes no credential from a project.";
      return hostProblem(host, rules.allow) ?? addressProblem(host);
    },
  };
}
