import { hostProblem, type ImageReference, parseImageReference, registryApiHost } from "@svc/proto";
import { accountPrefix, accountRepositories, baseImagePrefix } from "@svc/proto/cluster-registry";
import type { Clock } from "@svc/runtime/clock";
import { ApiError } from "../../http/errors.ts";
import type { Config } from "../../settings/settings.ts";
import { publicAddresses } from "./egress.ts";
import { isNamedOwn, leadsToOwn, type OwnRegistry, ownRegistry } from "./own.ts";
import { type ResolveAddresses, systemAddresses } from "./resolve.ts";

export type { ResolveAddresses } from "./resolve.ts";

/** Judges whether the platform may fetch an image from where its reference says. */
export interface ReferencePolicy {
  /** Why the reference is refused to an account (null: to everybody's builds), as a sentence; null when it is not. */
  problem(reference: string, ownerId?: string | null): Promise<string | null>;
  /** What stands against a registry, which is normalised, by its name alone. */
  hostProblem(registry: string): string | null;
  /** Why there can be no credential for a registry, by the same rules. `host` is normalised. */
  registryProblem(host: string): Promise<string | null>;
}

export interface ReferenceRules {
  /** Private registries that the operator trusts, as host or host:port. */
  allow: readonly string[];
  /** What it keeps for projects cannot be deployed by name, whatever the name. */
  ownRegistry: OwnRegistry;
}

export const referenceRules = (config: Pick<Config, "registryAllow" | "registry">): ReferenceRules => ({
  allow: config.registryAllow,
  ownRegistry: ownRegistry(config.registry.url, config.registry.publicHost),
});

/** Repositories of the cluster's registry that belong to projects; see `repositories` in tasks/spec.ts. */
const projectRepositories = "svc/";

/** Why what the cluster's own registry keeps in a repository cannot be named; null when it can. */
function keptProblem({ repository }: ImageReference, ownerId: string | null): string | null {
  if (repository.startsWith(projectRepositories))
    return "Artifacts of projects cannot be deployed by name. Promote or roll back their deployment instead.";
  if (repository.startsWith(accountPrefix) && !isUnder(repository, ownerId))
    return "That repository is not yours. Your own images are named as `svc registry login` says.";
  return repository.startsWith(baseImagePrefix)
    ? "Copies of base images cannot be named. Name the image in the registry that it comes from."
    : null;
}

const isUnder = (repository: string, ownerId: string | null): boolean =>
  ownerId !== null && repository.startsWith(accountRepositories(ownerId));

/** Whether it names what the account itself pushed into the cluster's registry: nobody else's host is contacted then. */
export const isPushed = (
  { registry, repository }: ImageReference,
  { ownRegistry }: ReferenceRules,
  ownerId: string | null,
): boolean => isUnder(repository, ownerId) && isNamedOwn(registry, ownRegistry);

/** What stands against a reference by its text alone; null when only the registry's addresses are left to be judged. */
export function referenceProblem(text: string, rules: ReferenceRules, ownerId: string | null): string | null {
  const { allow, ownRegistry } = rules;
  const reference = parseImageReference(text);
  if ("problem" in reference) return reference.problem;
  if (isPushed(reference, rules, ownerId)) return null;
  const kept = keptProblem(reference, ownerId);
  if (kept !== null && isNamedOwn(reference.registry, ownRegistry)) return kept;
  return hostProblem(reference.registry, allow);
}

/**
 * What stands against a reference that passed by its text, because its registry is the cluster's own under a name that
 * only a lookup knows. Throws what `resolve` throws.
 */
export async function aliasProblem(
  clock: Clock,
  reference: ImageReference,
  { ownRegistry }: ReferenceRules,
  resolve: ResolveAddresses,
  ownerId: string | null,
): Promise<string | null> {
  const kept = keptProblem(reference, ownerId);
  return kept !== null && (await leadsToOwn(clock, reference.registry, ownRegistry, resolve)) ? kept : null;
}

/**
 * The policy of an installation: a public name whose every address is public, or a registry that the operator
 * allows. Whoever dials judges the addresses once more, so a name that changes in between gains nothing.
 */
export function createReferencePolicy(
  clock: Clock,
  rules: ReferenceRules,
  resolve: ResolveAddresses = systemAddresses,
): ReferencePolicy {
  const addressProblem = async (registry: string): Promise<string | null> => {
    if (rules.allow.includes(registry)) return null;
    const hostname = registryApiHost(registry).replace(/:\d+$/, "");
    const addresses = await publicAddresses(clock, resolve, hostname);
    if (addresses === "private") return `"${registry}" is not on the public internet.`;
    return addresses.length === 0 ? `"${registry}" has no address.` : null;
  };
  return {
    hostProblem: (registry) => hostProblem(registry, rules.allow),
    async problem(text, ownerId = null) {
      const problem = referenceProblem(text, rules, ownerId);
      if (problem !== null) return problem;
      const reference = parseImageReference(text);
      if ("problem" in reference) return reference.problem;
      if (isPushed(reference, rules, ownerId)) return null;
      const { registry } = reference;
      return lookedUp(
        registry,
        async () => (await aliasProblem(clock, reference, rules, resolve, ownerId)) ?? addressProblem(registry),
      );
    },
    async registryProblem(host) {
      if (isNamedOwn(host, rules.ownRegistry)) return "The platform's own registry takes no credential from a project.";
      return hostProblem(host, rules.allow) ?? lookedUp(host, () => addressProblem(host));
    },
  };
}

/** That a name cannot be looked up is nobody's mistake: the resolver is away. */
async function lookedUp<T>(registry: string, judge: () => Promise<T>): Promise<T> {
  try {
    return await judge();
  } catch (cause) {
    throw new ApiError("UNAVAILABLE", {
      message: `The address of "${registry}" could not be looked up. Try again in a moment.`,
      cause,
    });
  }
}
