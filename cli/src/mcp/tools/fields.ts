import {
  channels,
  type Deployment,
  type DeploymentListItem,
  deploymentSchema,
  type Project,
  projectSchema,
} from "@svc/proto";
import { z } from "zod";

/** What tools take again and again. */
export const takes = {
  channel: z.enum(channels).optional(),
  deploymentId: z.string().describe("Id of a deployment, as get_project and deploy_status tell it"),
  cursor: z
    .string()
    .regex(/^\d{1,15}$/)
    .optional()
    .describe("olderCursor or nextCursor of the answer before"),
  grep: z.string().max(500).optional().describe("Only lines that fit this regular expression"),
  since: z.string().max(40).optional().describe("Only from then on: 15m, 2d, or an ISO timestamp"),
};

/** A project, in the fields that a model needs. */
export const projectFields = projectSchema.pick({
  ...{ id: true, name: true, slug: true, type: true, url: true, framework: true, deployMode: true },
  ...{ suspendedAt: true, suspendReason: true, passwordProtected: true, createdAt: true },
});

export function projectOf(project: Omit<Project, "productionBranch">): z.input<typeof projectFields> {
  const { id, name, slug, type, url, framework, deployMode } = project;
  const { suspendedAt, suspendReason, passwordProtected, createdAt } = project;
  return { id, name, slug, type, url, framework, deployMode, suspendedAt, suspendReason, passwordProtected, createdAt };
}

/** A deployment without anything that others wrote. */
export const deploymentFields = deploymentSchema
  .pick({
    ...{ id: true, status: true, channel: true, url: true, gitSha: true, gitPrNumber: true, held: true },
    ...{ createdAt: true, startedAt: true, finishedAt: true, errorCode: true },
  })
  .extend({
    releaseStatus: z.string(),
    /** Ends of a container that should have gone on. */
    crashes: z.number().optional(),
    placement: z.string().optional(),
  });

export function deploymentOf(deployment: DeploymentListItem | Deployment): z.input<typeof deploymentFields> {
  const { id, status, channel, url, gitSha, gitPrNumber, held, createdAt, startedAt, finishedAt } = deployment;
  const { release, crashing, placement } = deployment;
  const errorCode = "errorCode" in deployment ? deployment.errorCode : undefined;
  return {
    ...{ id, status, channel, url, gitSha, gitPrNumber, createdAt, startedAt, finishedAt },
    ...(held && { held }),
    ...(errorCode != null && { errorCode }),
    releaseStatus: release.status,
    ...(crashing && { crashes: crashing.count }),
    ...(placement && { placement: placement.problem?.code ?? placement.state }),
  };
}

/** What others wrote about a deployment, or had it say. */
export const saidOfDeployment = {
  error: z.string().nullable().optional(),
  releaseError: z.string().nullable().optional(),
  crashReason: z.string().optional(),
  gitRef: z.string().nullable().optional(),
  gitRepository: z.string().nullable().optional(),
  trigger: z.string().nullable().optional(),
  warnings: z.array(z.string()).optional(),
};

export function saidOf(deployment: DeploymentListItem | Deployment) {
  const { error, release, crashing, gitRef, gitRepository, trigger, warnings } = deployment;
  return {
    ...(error !== null && { error }),
    ...(release.error !== null && { releaseError: release.error }),
    ...(crashing && { crashReason: crashing.reason }),
    ...{ gitRef, gitRepository, trigger },
    ...(warnings !== undefined && { warnings }),
  };
}
