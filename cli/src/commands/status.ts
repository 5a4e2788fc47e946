import { type DeploymentListItem, limits, type Project, projectDetailReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { command, flag } from "../command.ts";
import { listDeployments } from "../deploy/redeploy.ts";
import { CliError } from "../errors.ts";
import { addressLines, deploymentList, headline, liveAddresses } from "../status-lines.ts";
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
    const [{ project, deployments }, previews, running] = await Promise.all([
      api.get(`/projects/${id}`, projectDetailReply),
      list(api, id, `channel=preview&limit=${previewsListed}`),
      list(api, id, `status=running&limit=${limits.deploymentListMax}`),
    ]);
    // What serves may have many later ones before it that failed.
    const shown = [...deployments, ...previews.filter(({ channel }) => channel === "preview")];
    const hidden = running.filter((each) => each.channel !== "preview" && !shown.some((other) => other.id === each.id));
    return {
      url: project.url,
      project: projectFacts(project),
      ...suspension(project),
      live: liveAddresses([...shown, ...running]),
      deployments: [...shown, ...hidden].sort(newestFirst).map(row),
    };
  },
  render: (payload, screen) => {
    const { paint } = screen;
    const { name, slug, type } = payload.project;
    return [
      `${paint("bold", name)} ${paint("dim", `${slug}, ${type}`)}`,
      `  ${headline("suspendedAt" in payload, payload.deployments, screen)}`,
      ...addressLines(payload, screen),
      "",
      payload.deployments.length === 0
        ? "No deployments yet. Make one with `svc deploy`"
        : deploymentList(payload.deployments, screen),
    ].join("\n");
  },
});

/** The project's own detail has the newest of production and dev only. A platform without the list has no more to say. */
async function list(api: Api, projectId: string, query: string): Promise<DeploymentListItem[]> {
  return listDeployments(api, projectId, query).catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CLOUD_NOT_FOUND") return [];
    throw thrown;
  });
}

const newestFirst = (left: DeploymentListItem, right: DeploymentListItem): number =>
  Date.parse(right.createdAt) - Date.parse(left.createdAt);

const suspension = ({ suspendedAt, suspendReason }: Project) =>
  suspendedAt === null ? {} : { suspendedAt, suspendReason };

const row = (deployment: DeploymentListItem) => {
  const { id, status, channel, error, release, gitPrNumber, placement, createdAt, startedAt, finishedAt } = deployment;
  const { url, trigger, gitSha, gitRef } = deployment;
  const { crashing } = deployment;
  return {
    id,
    status,
    channel,
    error,
    ...(crashing ? { crashing } : {}),
    ...(release.configured ? { release } : {}),
    ...(placement?.problem ? { placement } : {}),
    ...(gitPrNumber === null || channel !== "preview" ? {} : { gitPrNumber }),
    url,
    trigger,
    gitSha,
    gitRef,
    createdAt,
    startedAt,
    finishedAt,
  };
};
