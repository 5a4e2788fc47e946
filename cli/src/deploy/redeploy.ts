import {
  type Channel,
  type DeploymentListItem,
  deploymentListReply,
  deploymentReply,
  newDeploymentReply,
  type Project,
  type ProjectDetailReply,
  projectDetailReply,
} from "@svc/proto";
import type { Api } from "../api.ts";
import { flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatAge, shortCommit } from "../format.ts";
import { deploymentIdOf } from "../ids.ts";
import { postOnce } from "../post-once.ts";
import { getProject, isMeant, projectFacts } from "../target.ts";
import { awaitOutcome, reportQueued, unknownAdvice } from "./outcome.ts";

/** Of the commands that make a new deployment of an earlier one. */
export const redeployFlags = {
  project: flag.project,
  wait: flag.toggle("--no-wait", "Return once the deployment is queued"),
};

export const queuedText = (deploymentId: string): string =>
  `Queued\n  Follow it with \`svc logs -f ${deploymentId}\`, or see \`svc status\``;

/** A deployment whose artifact is deployed once more. */
export type Source = DeploymentListItem;

/** The deployment that was named, with its project. CLOUD_NOT_FOUND when `--project` names another one. */
export async function getNamed(
  api: Api,
  id: string,
  project: string | undefined,
): Promise<ProjectDetailReply & { source: Source }> {
  const { deployment } = await api.get(`/deployments/${deploymentIdOf(id)}`, deploymentReply);
  const reply = await api.get(`/projects/${deployment.projectId}`, projectDetailReply);
  if (project === undefined || isMeant(project, reply.project)) return { ...reply, source: deployment };
  throw new CliError("CLOUD_NOT_FOUND", `The project ${project} has no deployment ${deployment.id}`, {
    hint: `See its deployments with \`svc status --project ${project}\``,
  });
}

/** The project that is meant, the deployments that its detail shows, and a way to ask for others. */
export async function getProjectDeployments(context: Context, api: Api, named: string | undefined) {
  const { project, deployments } = await getProject(context, named);
  return { project, deployments, list: (query: string) => listDeployments(api, project.id, query) };
}

export const listDeployments = async (api: Api, projectId: string, query: string): Promise<DeploymentListItem[]> =>
  (await api.get(`/projects/${projectId}/deployments?${query}`, deploymentListReply)).deployments;

/** Which version a deployment is, for people: its id, its commit, its age. */
export function describeVersion(
  { id, gitSha, createdAt }: Pick<Source, "id" | "gitSha" | "createdAt">,
  now: Date,
): string {
  const commit = gitSha === null ? [] : [`commit ${shortCommit(gitSha)}`];
  return [id, ...commit, `deployed ${formatAge(createdAt, now)}`].join(", ");
}

/**
 * Rolls back to `source` or promotes it: queues a deployment of its artifact and, unless `wait` is false, watches it
 * to its end. Returns what the envelope says of the new one.
 */
export async function redeploy(
  context: Context,
  api: Api,
  {
    action,
    project,
    source,
    wait,
  }: { action: "rollback" | "promote"; project: Project; source: Source; wait: boolean },
) {
  context.onInterrupt(unknownAdvice);
  const reply = await postOnce(context, api, `/deployments/${source.id}/${action}`, newDeploymentReply);
  const channel: Channel = reply.channel ?? (action === "promote" ? "production" : source.channel);
  const releaseStatus = action === "rollback" ? "skipped" : "pending";
  const accepted = { id: reply.deploymentId, channel, releaseStatus, reuses: true };
  context.terminal.step(`Deployment ${accepted.id} to ${channel} is queued`);
  for (const warning of reply.warnings ?? []) context.warn(warning);
  const facts = { project: projectFacts(project), channel };
  if (!wait) {
    await reportQueued(context, api, accepted);
    const deployment = { id: accepted.id, status: "queued" };
    return { url: reply.url ?? project.url, ...facts, deployment, queued: true };
  }
  const { id, status, release, url } = await awaitOutcome(context, api, accepted);
  return { url, ...facts, deployment: { id, status, release } };
}
