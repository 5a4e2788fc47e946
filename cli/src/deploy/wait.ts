import { type Deployment, type DeploymentStatus, deploymentReply } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatDuration } from "../format.ts";
import { poll, pollDelay } from "../poll.ts";
import { createLogTail } from "./log-tail.ts";

/** How long a deployment is watched. */
const watchMsMax = 15 * 60_000;

/**
 * Watches a deployment until `isOver` says so of its status; with `narrate`, says what it is doing and
 * shows its build log. DEPLOY_TIMEOUT after 15 minutes.
 */
export async function waitForDeployment(
  context: Context,
  api: Api,
  id: string,
  { isOver, narrate }: { isOver(status: DeploymentStatus, error: string | null): boolean; narrate: boolean },
): Promise<Deployment> {
  const { terminal } = context;
  const startedAt = performance.now();
  const tail = narrate ? createLogTail(context, api, id, terminal.log) : null;
  const activity = terminal.activity(null);
  let phase = "";
  try {
    return await poll(context, async () => {
      const elapsedMs = performance.now() - startedAt;
      if (elapsedMs > watchMsMax) throw timedOut(id);
      const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
      const next = phaseOf(deployment);
      activity.update(`${next} (${formatDuration(elapsedMs)})`);
      // What the log holds by now was written before the new phase, unless that is the one which writes it.
      if (deployment.status !== "building") await tail?.read();
      if (narrate && next !== phase && next !== "") terminal.step(next);
      phase = next;
      if (deployment.status === "building") await tail?.read();
      if (!isOver(deployment.status, deployment.error)) return { delayMs: pollDelay(elapsedMs) };
      tail?.flush();
      return { done: deployment };
    });
  } finally {
    activity.stop();
  }
}

/** What a deployment is doing, for people; empty for an end that is told as an error. */
function phaseOf({ status, release }: Deployment): string {
  if (status === "deploying" && release.status === "running") return "Running the release command";
  const phases: Partial<Record<DeploymentStatus, string>> = {
    queued: "Waiting for its turn",
    building: "Building",
    deploying: "Starting, and switching traffic over",
    running: "Running",
    stopped: "Stopped",
  };
  return phases[status] ?? "";
}

const timedOut = (id: string): CliError =>
  new CliError("DEPLOY_TIMEOUT", "The deployment has not ended within 15 minutes; it may still", {
    hint: `Follow it with \`svc logs ${id} --follow\``,
  });
