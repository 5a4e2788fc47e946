import { argument, command } from "../command.ts";
import type { Context } from "../context.ts";
import { latestSuperseded } from "../deploy/choose.ts";
import { getNamed, getProjectDeployments, queuedText, redeploy, redeployFlags } from "../deploy/redeploy.ts";
import { CliError } from "../errors.ts";
import { formatAge } from "../format.ts";

export const rollback = command({
  name: "rollback",
  summary: "Put an earlier deployment back, without building it again",
  details:
    "Without an id it is the last production deployment that another one has replaced. A release command does not run again, and data stays as it is. A preview goes to production with `svc promote`.",
  flags: redeployFlags,
  arguments: { deploymentId: argument.optional("deploymentId", "What to go back to; see `svc status`") },
  examples: ["svc rollback", "svc rollback 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --project shop"],
  async run(context, { project: named, wait, deploymentId }) {
    const api = await context.api();
    const { project, source } =
      deploymentId === undefined ? await findTarget(context, named) : await getNamed(api, deploymentId, named);
    context.terminal.step(
      `Rolling ${project.slug} back to ${source.id}, deployed ${formatAge(source.createdAt, context.now())}`,
    );
    const done = await redeploy(context, api, { action: "rollback", project, source, wait });
    return { ...done, rolledBackTo: { id: source.id, finishedAt: source.finishedAt } };
  },
  render: (payload, { paint, now }) => {
    const { rolledBackTo, project, channel } = payload;
    const done = paint("green", "✓");
    if ("queued" in payload) return `${done} ${queuedText(payload.deployment.id)}`;
    const age = rolledBackTo.finishedAt === null ? "" : ` of ${formatAge(rolledBackTo.finishedAt, now)}`;
    return `${done} Rolled ${project.slug} back on ${channel}, to the deployment${age}\n  ${paint("bold", payload.url)}`;
  },
});

/** The newest superseded production deployment; asked for on its own when those that failed since hide it. */
async function findTarget(context: Context, named: string | undefined) {
  const { project, deployments, list } = await getProjectDeployments(context, await context.api(), named);
  const source =
    latestSuperseded(deployments) ?? latestSuperseded(await list("channel=production&status=superseded&limit=1"));
  if (source !== null) return { project, source };
  throw new CliError(
    "CLOUD_REQUEST_FAILED",
    "ROLLBACK_UNAVAILABLE: Production has no earlier deployment to go back to",
    {
      hint: "See the deployments with `svc status`, or deploy anew with `svc deploy --prod`",
    },
  );
}
