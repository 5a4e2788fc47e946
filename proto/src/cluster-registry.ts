/** Who signs the tokens of the cluster's registry, and for whom: control writes both into them, the registry's settings demand both. */
export const registryTokenIssuer = "svc-control";
export const registryTokenAudience = "svc-registry";

/** Repositories of images from which builds start. They are no project's, and every build may read them. */
export const baseImagePrefix = "bases/";
