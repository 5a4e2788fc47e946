import { cancelDeployment } from "./endpoints/cancel.ts";
import { createDeployment } from "./endpoints/create.ts";
import { lifecycleEndpoints } from "./endpoints/lifecycle.ts";
import { deploymentReads } from "./endpoints/read.ts";

export const deploymentEndpoints = [createDeployment, cancelDeployment, ...deploymentReads, ...lifecycleEndpoints];
