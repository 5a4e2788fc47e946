import { type Channel, type Deployment, isSettled } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { failureHint } from "./failure-hint.ts";
import { createNarrator } from "./narrator.ts";
import { type DeployFacts, tellPipeline } from "./step-output.ts";
import { waitForDeployment } from "./wait.ts";

/**
 * A deployment that the platform has accepted. `releaseStatus` is what it said of the release command; `reuses`: the
 * artifact of an earlier one is deployed once more.
 */
export interface Accepted {
  id: string;
  channel: Channel;
  releaseStatus: string;
  reuses: boolean;
}

interface Progress {
  status: string;
  releaseStatus: string;
}

/** For when somebody stops looking before the platform has answered. */
export const unknownAdvice = "Whether a deployment began is not known. See with `svc status`";

/** For when somebody stops looking: the platform goes on. */
export const reattachAdvice = (id: string): string =>
  `The deployment goes on without you. Follow it with \`svc logs -f ${id}\`, see how it ended with \`svc status\`, or end it with \`svc cancel ${id}\``;

/** Tells a pipeline of a deployment that nobody waits for. */
export const reportQueued = (context: Context, api: Api, accepted: Accepted): Promise<void> =>
  tellPipeline(context, factsOf(api, accepted, { status: "queued", releaseStatus: accepted.releaseStatus }));

/**
 * Watches an accepted deployment to its end and tells about it on the way; returns it when it reached its visitors.
 * However this ends, a pipeline has its step outputs by then. DEPLOY_FAILED, DEPLOY_TIMEOUT, or what kept us from asking.
 */
export async function awaitOutcome(context: Context, api: Api, accepted: Accepted): Promise<Deployment> {
  const { id } = accepted;
  context.onInterrupt(reattachAdvice(id));
  const narrator = createNarrator(context, api, accepted);
  let last: Progress = { status: "queued", releaseStatus: accepted.releaseStatus };
  const watcher = {
    ...narrator,
    see: (deployment: Deployment, elapsedMs: number) => {
      last = progressOf(deployment);
      return narrator.see(deployment, elapsedMs);
    },
  };
  let ended: Deployment;
  try {
    ended = await waitForDeployment(context, api, id, { isOver: isSettled, watcher });
  } catch (thrown) {
    await tellPipeline(context, factsOf(api, accepted, last, thrown instanceof Error ? { error: thrown.message } : {}));
    throw withWayBack(thrown, id);
  }
  const { error } = ended;
  const more = serves(ended) ? { url: ended.url } : { ...(error === null ? {} : { error }) };
  await tellPipeline(context, factsOf(api, accepted, progressOf(ended), more));
  if (!serves(ended)) {
    const fallback = ended.status === "canceled" ? "The deployment was canceled" : "The deployment failed";
    throw new CliError("DEPLOY_FAILED", error ?? fallback, { hint: failureHint(ended) });
  }
  if (ended.held) context.warn("Production was stopped meanwhile: it is ready, and serves after `svc start`");
  else if (ended.status === "superseded")
    context.warn(
      "A newer deployment has replaced this one already (superseded): what it deployed is not what visitors see",
    );
  else if (ended.status !== "running") context.warn(`The deployment ran, but is ${ended.status} by now`);
  return ended;
}

const progressOf = ({ status, release }: Deployment): Progress => ({ status, releaseStatus: release.status });

/** Whether the deployment reached its visitors, even if another has taken its place by now, or would with a start. */
const serves = ({ status }: Deployment): boolean => ["running", "superseded", "stopped"].includes(status);

function factsOf(
  api: Api,
  { id, channel }: Accepted,
  { status, releaseStatus }: Progress,
  more: Pick<DeployFacts, "url" | "error"> = {},
): DeployFacts {
  return {
    deployment_id: id,
    channel,
    status,
    release_status: releaseStatus,
    // The platform has no page per deployment; this is where its pages begin.
    dashboard_url: `${api.apiUrl}/`,
    ...more,
  };
}

/** Losing sight of a deployment is not its end: says how to look again. */
function withWayBack(thrown: unknown, id: string): unknown {
  if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_UNAVAILABLE") return thrown;
  const { code, message, cause, server } = thrown;
  return new CliError(code, message, { cause, hint: reattachAdvice(id), ...(server && { server }) });
}
