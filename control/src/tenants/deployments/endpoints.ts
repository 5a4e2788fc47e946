import { cancelDeployment } from "./endpoints/cancel.ts";
import { createDeployment } from "./endpoints/create.ts";
import { startProject, stopProject } from "./endpoints/lifecycle.ts";
import { projectDetail } from "./endpoints/of-project.ts";
import { deploymentDetail, deploymentList, deploymentLogs, deploymentTimeline } from "./endpoints/read.ts";
import { promoteDeployment, rollbackDeployment } from "./endpoints/redeploy.ts";
import { removeDeployment } from "./endpoints/remove.ts";
import { screenshotEndpoints } from "./screenshots/endpoints.ts";

export const deploymentEndpoints = [
  ...[projectDetail, createDeployment, cancelDeployment, rollbackDeployment, promoteDeployment, removeDeployment],
  ...[deploymentList, deploymentDetail, deploymentLogs, deploymentTimeline],
  ...[stopProject, startProject],
  ...screenshotEndpoints,
];
