import { type Channel, channels, type JobReply, jobReply, jobsReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { deploymentIdOf, isId } from "../ids.ts";
import { resolveTarget, targetFacts } from "../target.ts";

/** Of the commands about definitions: which of several scopes is meant. */
export const jobFlags = {
  project: flag.project,
  channel: flag.choice("--channel <channel>", "Of this channel; default: production", channels),
  deployment: flag.text("--deployment <id>", "Of this deployment: the only way to a pull request's preview"),
};

/** Where jobs are looked for, and the way to the platform. */
export interface JobScope {
  api: Api;
  projectId: string;
  /** What envelopes say of the project. */
  project: ReturnType<typeof targetFacts>;
  channel: Channel | undefined;
  deploymentId: string | undefined;
}

/** Reads the flags before anything is asked. */
export async function findScope(
  context: Context,
  given: { project: string | undefined; channel?: Channel | undefined; deployment?: string | undefined },
): Promise<JobScope> {
  const deploymentId = given.deployment === undefined ? undefined : deploymentIdOf(given.deployment);
  const target = await resolveTarget(context, given.project);
  const api = await context.api();
  return { api, projectId: target.id, project: targetFacts(target), channel: given.channel, deploymentId };
}

/** The query of a scope: what is not given is the platform's to say. */
export function scopeQuery({ channel, deploymentId }: Pick<JobScope, "channel" | "deploymentId">): URLSearchParams {
  const query = new URLSearchParams();
  if (channel !== undefined) query.set("channel", channel);
  if (deploymentId !== undefined) query.set("deployment", deploymentId);
  return query;
}

/** The definitions of a scope, and what the plan allows. */
export const listJobs = (scope: JobScope) =>
  scope.api.get(withQuery(`/projects/${scope.projectId}/jobs`, scopeQuery(scope)), jobsReply);

export const withQuery = (path: string, query: URLSearchParams): string =>
  query.size === 0 ? path : `${path}?${query}`;

/** The id of the job that was named: an id is used as it is. CLOUD_NOT_FOUND, with the names that there are, for any other name. */
export async function findJobId(scope: JobScope, named: string): Promise<string> {
  if (isId(named)) return named.toLowerCase();
  const { jobs } = await listJobs(scope);
  const found = jobs.find(({ name }) => name === named);
  if (found !== undefined) return found.id;
  const where = scope.deploymentId === undefined ? (scope.channel ?? "production") : `deployment ${scope.deploymentId}`;
  throw new CliError("CLOUD_NOT_FOUND", `There is no job "${named}" on ${where}`, {
    hint:
      jobs.length === 0
        ? "Jobs stand in the manifest (`jobs:`), and are there once it is deployed"
        : `There is ${jobs.map(({ name }) => name).join(", ")}; other channels: --channel`,
  });
}

/** Says, over all deployments to come, whether a job is scheduled; what the manifest or a pause forbids stays so. */
export async function switchJob(scope: JobScope, named: string, enabled: boolean): Promise<JobReply> {
  const id = await findJobId(scope, named);
  const path = `/projects/${scope.projectId}/jobs/${id}`;
  return (await scope.api.patch(path, jobReply, { body: { enabled } })).job;
}

/** `text` as the id of a run; CLI_INVALID_USAGE when it cannot be one. */
export function runIdOf(text: string): string {
  if (isId(text)) return text.toLowerCase();
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is not the id of a run`, {
    hint: "See the runs with `svc jobs runs`",
  });
}
