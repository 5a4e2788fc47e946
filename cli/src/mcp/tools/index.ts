import type { Tool } from "../tool.ts";
import { databaseTools } from "./databases.ts";
import { deploymentTools } from "./deployments.ts";
import { doctorTools } from "./doctor.ts";
import { domainTools } from "./domains.ts";
import { envTools } from "./env.ts";
import { figureTools } from "./figures.ts";
import { jobTools } from "./jobs.ts";
import { logTools } from "./logs.ts";
import { projectTools } from "./projects.ts";

/** Every tool, in the order in which clients list them. */
export const tools: readonly Tool[] = [
  ...projectTools,
  ...deploymentTools,
  ...logTools,
  ...figureTools,
  ...envTools,
  ...jobTools,
  ...databaseTools,
  ...domainTools,
  ...doctorTools,
];
