import { hashText } from "../../kernel/random.ts";

/** Where the cluster's registry is. */
export const registryHost = "registry.test";

/** The image of a deployment. */
export const imageOf = (projectId: string, deploymentId: string): string =>
  `${registryHost}/${projectId}@sha256:${hashText(deploymentId).toString(16).padStart(64, "0")}`;
