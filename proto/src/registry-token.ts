/** Who signs the tokens of the cluster's registry, and for whom: control writes both into them, the registry's settings demand both. */
export const registryTokenIssuer = "svc-control";
export const registryTokenAudience = "svc-registry";
