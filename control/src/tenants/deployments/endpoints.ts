import { cancelDeployment } from "./endpoints/cancel.ts";
import { createDeployment } from "./endpoints/create.ts";
import { lifecycleEndpoints } from "./endpoints/lifecycle.ts";
import { projectDetail } from "./endpoints/of-project.ts";
import { deploymentReads } from "./endpoints/read.ts";
import { redeployEndpoints } from "./endpoints/redeploy.ts";
import { removeDeployment } from "./endpoints/remove.ts";

export const deploymentEndpoints = [
  projectDetail,
  createDeployment,
  cancelDeployment,
  ...redeployEndpoints,
  removeDeployment,
  ...deploymentReads,
  ...lifecycleEndpoints,
];
