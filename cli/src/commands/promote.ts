import { argument, command } from "../command.ts";
import type { Context } from "../context.ts";
import { runningPreview } from "../deploy/choose.ts";
import {
  describeVersion,
  getNamed,
  getProjectDeployments,
  queuedText,
  redeploy,
  redeployFlags,
} from "../deploy/redeploy.ts";

export const promote = command({
  name: "promote",
  summary: "Put what a preview runs into production, without building it again",
  details:
    "Only code goes over: production keeps its data and variables, and a release command runs once against them before any visitor sees the new code. Without an id it is the running preview that belongs to no pull request, or else the only one.",
  flags: redeployFlags,
  arguments: { deploymentId: argument.optional("deploymentId", "The preview deployment; see `svc status`") },
  examples: ["svc promote", "svc promote 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --project shop"],
  async run(context, { project: named, wait, deploymentId }) {
    const api = await context.api();
    const { project, source } =
      deploymentId === undefined ? await findPreview(context, named) : await getNamed(api, deploymentId, named);
    context.terminal.step(`Promoting ${describeVersion(source, context.clock.now())}, of ${project.slug}`);
    const done = await redeploy(context, api, { action: "promote", project, source, wait });
    return { ...done, promotedFrom: { id: source.id, finishedAt: source.finishedAt } };
  },
  render: (payload, { paint }) => {
    const done = paint("green", "✓");
    if ("queued" in payload) return `${done} ${queuedText(payload.deployment.id)}`;
    return `${done} Promoted ${payload.project.slug} to ${payload.channel}\n  ${paint("bold", payload.url)}`;
  },
});

async function findPreview(context: Context, named: string | undefined) {
  const { project, list } = await getProjectDeployments(context, await context.api(), named);
  return { project, source: runningPreview(await list("channel=preview&status=running&limit=100")) };
}
