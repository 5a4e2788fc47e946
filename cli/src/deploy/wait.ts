import { type Deployment, type DeploymentStatus, deploymentReply } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { poll, pollDelay } from "../poll.ts";
import { waitOf } from "./phases.ts";

/** How long a deployment is watched. */
const watchMsMax = 15 * 60_000;

/** Looks on while somebody waits. */
export interface Watcher {
  /** Told what the deployment is at each look, `elapsedMs` after the first. May be told the same twice. */
  see(deployment: Deployment, elapsedMs: number): void | Promise<void>;
  close(): void;
}

/** A watcher that shows one changing line: what is done, or what that waits for. */
export function lineWatcher(context: Context, doing: string): Watcher {
  const activity = context.terminal.activity(doing);
  return {
    see: (deployment) => {
      const wait = waitOf(deployment);
      activity.update(wait === null ? doing : `${doing}. ${wait.doing}`);
    },
    close: () => activity.stop(),
  };
}

/**
 * Looks at a deployment until `isOver` says so. Outages of the platform are waited out, and nothing is changed
 * there. DEPLOY_TIMEOUT after 15 minutes.
 */
export async function waitForDeployment(
  context: Context,
  api: Api,
  id: string,
  { isOver, watcher }: { isOver(status: DeploymentStatus, error: string | null): boolean; watcher: Watcher },
): Promise<Deployment> {
  const startedAtMs = context.clock.steadyMs();
  try {
    return await poll(context, async () => {
      const elapsedMs = context.clock.steadyMs() - startedAtMs;
      if (elapsedMs > watchMsMax) throw timedOut(id);
      const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
      await watcher.see(deployment, elapsedMs);
      return isOver(deployment.status, deployment.error) ? { done: deployment } : { delayMs: pollDelay(elapsedMs) };
    });
  } finally {
    watcher.close();
  }
}

const timedOut = (id: string): CliError =>
  new CliError("DEPLOY_TIMEOUT", "The deployment has not ended within 15 minutes; it may still", {
    hint: `Follow it with \`svc logs -f ${id}\`, or end it with \`svc cancel ${id}\``,
  });
