import { command, flag, type View } from "../command.ts";
import { formatAge, table } from "../format.ts";
import { paintStatus } from "../paint.ts";
import { getProject, projectFacts } from "../target.ts";

type Row = {
  id: string;
  status: string;
  channel: string;
  error: string | null;
  createdAt: string;
};

export const status = command({
  name: "status",
  summary: "Show what serves the project, and its latest deployments",
  flags: { project: flag.project },
  examples: ["svc status", "svc status --project shop"],
  async run(context, { project: named }) {
    const { project, deployments } = await getProject(context, named);
    return {
      url: project.url,
      project: projectFacts(project),
      ...(project.suspendedAt === null
        ? {}
        : { suspendedAt: project.suspendedAt, suspendReason: project.suspendReason }),
      deployments: deployments.map(({ id, status, channel, error, release, createdAt, startedAt, finishedAt }) => ({
        id,
        status,
        channel,
        error,
        ...(release.configured ? { release } : {}),
        createdAt,
        startedAt,
        finishedAt,
      })),
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
        : list(payload.deployments, view),
    ].join("\n");
  },
});

/** One line on production: what visitors see now. */
function headline(suspended: boolean, deployments: readonly Row[], { paint, now }: View): string {
  if (suspended) return paint("red", "Production is suspended");
  const production = deployments.filter(({ channel }) => channel === "production");
  const live = production.find(({ status }) => status === "running" || status === "stopped");
  const newest = production[0];
  const head =
    live === undefined
      ? "Production has never run"
      : `Production is ${paintStatus(paint, live.status)}, deployed ${formatAge(live.createdAt, now)}`;
  if (newest === undefined || newest === live) return head;
  return `${head}; the latest deployment is ${paintStatus(paint, newest.status)}`;
}

function list(deployments: readonly Row[], { paint, now }: View): string {
  const header = ["DEPLOYMENT", "CHANNEL", "STATUS", "CREATED", ""].map((cell) => paint("dim", cell));
  const rows = deployments.map(({ id, channel, status, createdAt, error }) => [
    id,
    channel,
    paintStatus(paint, status),
    formatAge(createdAt, now),
    (error ?? "").split("\n")[0] ?? "",
  ]);
  return table([header, ...rows]);
}
