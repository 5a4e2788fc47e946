import { type DeploymentListItem, deploymentListReply, type Project, projectDetailReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { command, flag } from "../command.ts";
import { CliError } from "../errors.ts";
import { deploymentList, headline } from "../status-view.ts";
import { projectFacts, resolveTarget } from "../target.ts";

const previewsListed = 10;

export const status = command({
  name: "status",
  summary: "Show what serves the project, and its latest deployments",
  flags: { project: flag.project },
  examples: ["svc status", "svc status --project shop"],
  async run(context, { project: named }) {
    const { id } = await resolveTarget(context, named);
    const api = await context.api();
    const [{ project, deployments }, previews] = await Promise.all([
      api.get(`/projects/${id}`, projectDetailReply),
      listPreviews(api, id),
    ]);
    return {
      url: project.url,
      project: projectFacts(project),
      ...suspension(project),
      deployments: [...deployments, ...previews].sort(newestFirst).map(row),
    };
  },
  render: (payload, view) => {
    const { paint } = view;
    const { name, slug, type } = payload.project;
    return [
      `${paint("bold", name)} ${paint("dim", `${slug}, ${type}`)}`,
      `  ${headline("suspendedAt" in payload, payload.deployments, view)}`,
      `  ${payload.url}`,
      "",
      payload.deployments.length === 0
        ? "No deployments yet. Make one with `svc deploy`"
        : deploymentList(payload.deployments, view),
    ].join("\n");
  },
});

/** The project's own detail has production and dev only. A platform without the list has no more to say. */
async function listPreviews(api: Api, projectId: string): Promise<DeploymentListItem[]> {
  const query = `channel=preview&limit=${previewsListed}`;
  const reply = await api
    .get(`/projects/${projectId}/deployments?${query}`, deploymentListReply)
    .catch((thrown: unknown) => {
      if (thrown instanceof CliError && thrown.code === "CLOUD_NOT_FOUND") return { deployments: [] };
      throw thrown;
    });
  // Whatever the answer, production is not to appear twice.
  return reply.deployments.filter(({ channel }) => channel === "preview");
}

const newestFirst = (left: DeploymentListItem, right: DeploymentListItem): number =>
  Date.parse(right.createdAt) - Date.parse(left.createdAt);

const suspension = ({ suspendedAt, suspendReason }: Project) =>
  suspendedAt === null ? {} : { suspendedAt, suspendReason };

const row = (deployment: DeploymentListItem) => {
  const { id, status, channel, error, release, gitPrNumber, placement, createdAt, startedAt, finishedAt } = deployment;
  return {
    id,
    status,
    channel,
    error,
    ...(release.configured ? { release } : {}),
    ...(placement?.problem ? { placement } : {}),
    ...(gitPrNumber === null || channel !== "preview" ? {} : { gitPrNumber }),
    createdAt,
    startedAt,
    finishedAt,
  };
};
