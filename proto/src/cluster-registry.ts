/** Who signs the tokens of the cluster's registry, and for whom: control writes both into them, the registry's settings demand both. */
export const registryTokenIssuer = "svc-control";
export const registryTokenAudience = "svc-registry";

/** Repositories into which accounts push images of their own. */
export const accountPrefix = "accounts/";

/** Those of one account, which nobody else reads or writes. */
export const accountRepositories = (userId: string): string => `${accountPrefix}${userId}/`;

/** Repositories of images from which builds start. They are no project's, and every build may read them. */
export const baseImagePrefix = "bases/";
