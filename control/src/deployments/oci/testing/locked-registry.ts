import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";

export type { RegistryProcess } from "../../../../../registry/src/testing/docker-registry.ts";

/** The one account of a registry that lets nobody else in. */
export const account = { username: "puller", password: "correct horse" };

export const startLockedRegistry = (): Promise<RegistryProcess> => startDockerRegistry(account);
