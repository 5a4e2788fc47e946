import { cancelDeploymentReply, type Deployment, isSettled } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { openDeployment } from "../deploy/choose.ts";
import { getProjectDeployments } from "../deploy/redeploy.ts";
import { lineWatcher, waitForDeployment } from "../deploy/wait.ts";
import { CliError } from "../errors.ts";
import { deploymentIdOf } from "../ids.ts";

export const cancel = command({
  name: "cancel",
  summary: "End a deployment that is on its way; what serves goes on serving",
  details: "Without an id it is the deployment of the project that is queued, building or deploying.",
  flags: {
    project: flag.project,
    wait: flag.toggle("--no-wait", "Return once the platform has been told"),
  },
  arguments: { deploymentId: argument.optional("deploymentId", "The deployment; see `svc status`") },
  examples: ["svc cancel", "svc cancel 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --no-wait"],
  async run(context, { project, wait, deploymentId }) {
    const api = await context.api();
    const id = deploymentId === undefined ? await findOpen(context, api, project) : deploymentIdOf(deploymentId);
    await api.post(`/deployments/${id}/cancel`, cancelDeploymentReply);
    if (!wait) return { deployment: { id }, queued: true };
    context.onInterrupt("It is canceled without you. See how it ended with `svc status`");
    const watcher = lineWatcher(context, `Canceling ${id}`);
    const ended = await waitForDeployment(context, api, id, { isOver: isSettled, watcher });
    requireEnd(context, ended);
    const { status, channel, url } = ended;
    return { url, deployment: { id, status, channel } };
  },
  render: (payload, { paint }) =>
    "url" in payload
      ? `${paint("green", "✓")} Canceled the deployment to ${payload.deployment.channel}; what served before goes on serving`
      : `${paint("green", "✓")} Asked for. See how it ended with \`svc status\``,
});

async function findOpen(context: Context, api: Api, named: string | undefined): Promise<string> {
  const { list } = await getProjectDeployments(context, api, named);
  return openDeployment(await list("limit=100")).id;
}

/** A deployment may end by itself before the cancellation reaches it. That it reached its visitors is not what was asked for. */
function requireEnd(context: Context, { status, channel }: Deployment): void {
  if (status === "failed") context.warn("The deployment failed before it could be canceled");
  if (status === "failed" || status === "canceled") return;
  throw new CliError("CLOUD_REQUEST_FAILED", `CANCEL_UNAVAILABLE: It was too late; the deployment is ${status}`, {
    hint: channel === "production" ? "Go back with `svc rollback`" : "See what runs with `svc status`",
  });
}
