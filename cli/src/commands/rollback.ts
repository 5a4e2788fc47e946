import type { DeploymentListItem, Project } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command } from "../command.ts";
import type { Context } from "../context.ts";
import { furtherBack, latestSuperseded, liveOn, wasJustLeft } from "../deploy/choose.ts";
import {
  describeVersion,
  getNamed,
  getProjectDeployments,
  listDeployments,
  queuedText,
  redeploy,
  redeployFlags,
  type Source,
} from "../deploy/redeploy.ts";
import { CliError } from "../errors.ts";
import { formatAge } from "../format.ts";

export const rollback = command({
  name: "rollback",
  summary: "Put an earlier deployment back, without building it again",
  details:
    "Without an id it is the last production deployment that another one has replaced; right after a rollback that is the one which was left, and a person is asked first. A release command does not run again, and data stays as it is. A preview goes to production with `svc promote`.",
  flags: redeployFlags,
  arguments: { deploymentId: argument.optional("deploymentId", "What to go back to; see `svc status`") },
  examples: ["svc rollback", "svc rollback 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --project shop"],
  async run(context, { project: named, wait, deploymentId }) {
    const api = await context.api();
    const { project, deployments, source } =
      deploymentId === undefined ? await findTarget(context, named) : await getNamed(api, deploymentId, named);
    const live = await findLive(api, project, deployments, source);
    const { terminal } = context;
    terminal.step(`Rolling ${project.slug} back on ${source.channel}`);
    if (live !== null) terminal.step(`Goes:  ${describeVersion(live, context.clock.now())}`);
    terminal.step(`Comes: ${describeVersion(source, context.clock.now())}`);
    if (deploymentId === undefined && live !== null && wasJustLeft(live))
      await confirmReturn(context, source.id, furtherBack(deployments, live, source)?.id);
    const done = await redeploy(context, api, { action: "rollback", project, source, wait });
    return {
      ...done,
      rolledBackTo: { id: source.id, finishedAt: source.finishedAt },
      ...(live !== null && { rolledBackFrom: { id: live.id, finishedAt: live.finishedAt } }),
    };
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
  if (source !== null) return { project, deployments, source };
  throw new CliError(
    "CLOUD_REQUEST_FAILED",
    "ROLLBACK_UNAVAILABLE: Production has no earlier deployment to go back to",
    {
      hint: "See the deployments with `svc status`, or deploy anew with `svc deploy --prod`",
    },
  );
}

/** What visitors lose by it; asked for on its own likewise. */
async function findLive(
  api: Api,
  { id }: Project,
  deployments: readonly DeploymentListItem[],
  { channel }: Source,
): Promise<DeploymentListItem | null> {
  const shown = liveOn(deployments, channel);
  if (shown !== null) return shown;
  const listed = await listDeployments(api, id, `channel=${channel}&status=running&limit=1`).catch(
    (thrown: unknown) => {
      // Nothing depends on it but what a person reads.
      if (thrown instanceof CliError) return [];
      throw thrown;
    },
  );
  return liveOn(listed, channel);
}

/** A rollback that undoes a rollback puts back what somebody had just got rid of: a person is asked, others are told. */
async function confirmReturn(context: Context, leftId: string, furtherId: string | undefined): Promise<void> {
  const { terminal, globals } = context;
  if (globals.yes) return;
  const further =
    furtherId === undefined
      ? "See what else there is with `svc status`"
      : `\`svc rollback ${furtherId}\` goes further back`;
  if (!terminal.interactive) {
    context.warn(`${leftId} was left by the last rollback, and comes back now. ${further}`);
    return;
  }
  const question = `${leftId} was left by the last rollback. Put it back?`;
  if ((await terminal.confirm(question, { initial: false })) === true) return;
  throw new CliError("DESTRUCTIVE_CONFIRMATION_REQUIRED", "Not confirmed; nothing was changed", { hint: further });
}
