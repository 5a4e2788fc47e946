import {
  type Deployment,
  deploymentListReply,
  deploymentReply,
  isSettled,
  splitLastLines,
  timelineEvent,
  timelineReply,
} from "@svc/proto";
import { z } from "zod";
import type { Command } from "../../command.ts";
import { failureHint } from "../../deploy/failure-hint.ts";
import { readWholeLog } from "../../deploy/log-tail.ts";
import { CliError } from "../../errors.ts";
import { poll } from "../../poll.ts";
import type { Call } from "../call.ts";
import { lastPage } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { deploymentFields, deploymentOf, saidOf, saidOfDeployment, takes } from "./fields.ts";

/** Clients give up on a call after a minute. */
const waitSecondsMax = 50;
const pollMs = 1000;

const output = { deployment: deploymentFields, untrusted: untrusted(saidOfDeployment) };

const newestOr = takes.deploymentId.optional().describe("Default: the newest deployment");

/** The deployment that is meant: the one that was named, or the newest, of a channel where one is given. */
export async function findDeployment(
  call: Call,
  { deploymentId, channel }: { deploymentId?: string | undefined; channel?: string | undefined },
): Promise<Deployment> {
  const id = deploymentId === undefined ? await newestId(call, channel) : await call.deploymentId(deploymentId);
  return (await call.api.get(`/deployments/${id}`, deploymentReply)).deployment;
}

async function newestId(call: Call, channel: string | undefined): Promise<string> {
  const { id } = await call.target();
  const only = channel === undefined ? "" : `&channel=${channel}`;
  const { deployments } = await call.api.get(`/projects/${id}/deployments?limit=1${only}`, deploymentListReply);
  const [newest] = deployments;
  if (newest !== undefined) return newest.id;
  const where = channel === undefined ? "" : ` on ${channel}`;
  throw new CliError("CLOUD_NOT_FOUND", `The project has no deployment${where} yet`, {
    hint: "Make one with `svc deploy`",
  });
}

const deployStatus = tool({
  name: "deploy_status",
  title: "See how a deployment goes",
  description:
    "How far a deployment is. With waitSeconds it answers once the deployment has ended, or the time is over: call it again then.",
  effect: "reads",
  input: {
    deploymentId: newestOr,
    channel: takes.channel,
    waitSeconds: z.int().min(0).max(waitSecondsMax).optional(),
  },
  output: { ...output, ended: z.boolean().describe("Whether its status is final, until somebody changes something") },
  async run(call, { waitSeconds = 0, ...named }) {
    const { clock } = call.context;
    const first = await findDeployment(call, named);
    const untilMs = clock.steadyMs() + waitSeconds * 1000;
    const deployment =
      waitSeconds === 0 || isSettled(first.status)
        ? first
        : await poll(call.context, async () => {
            const { deployment: seen } = await call.api.get(`/deployments/${first.id}`, deploymentReply);
            const isOver = isSettled(seen.status) || clock.steadyMs() + pollMs > untilMs;
            return isOver ? { done: seen } : { delayMs: pollMs };
          });
    return { deployment: deploymentOf(deployment), ended: isSettled(deployment.status), untrusted: saidOf(deployment) };
  },
});

/** Of the build log; the whole of it is build_log's. */
const logBytesShown = 8 * 1024;

const explainDeploy = tool({
  name: "explain_deploy",
  title: "Explain what became of a deployment",
  description:
    "Why a deployment failed, or what it is doing: its error, what happened to it when, the end of its build log, and what to do next.",
  effect: "reads",
  input: { deploymentId: newestOr, channel: takes.channel },
  output: {
    deployment: deploymentFields,
    hint: z.string().nullable().describe("What to do next; null: nothing is wrong"),
    untrusted: untrusted({
      ...saidOfDeployment,
      lastLines: z.array(z.string()).optional().describe("What the app printed before it ended"),
      timeline: z.array(timelineEvent).optional(),
      logEnd: z.string().optional().describe("The end of the build log"),
    }),
  },
  async run(call, named) {
    const found = await findDeployment(call, named);
    const [timeline, log] = await Promise.all([
      ifAllowed(async () => (await call.api.get(`/deployments/${found.id}/timeline`, timelineReply)).timeline),
      ifAllowed(() => readWholeLog(call.api, found.id)),
    ]);
    const { reason, lastLines } = splitLastLines(found.error ?? "");
    return {
      deployment: deploymentOf(found),
      hint: found.status === "failed" ? failureHint(found) : null,
      untrusted: {
        ...saidOf(found),
        ...(found.error !== null && { error: reason }),
        ...(lastLines.length > 0 && { lastLines }),
        ...(timeline !== null && { timeline: timeline.slice(-30) }),
        ...(log !== null && { logEnd: lastPage(log, undefined, logBytesShown).text }),
      },
    };
  },
});

/** What a key may not see is left out. */
async function ifAllowed<T>(ask: () => Promise<T>): Promise<T | null> {
  return ask().catch((thrown: unknown) => {
    if (thrown instanceof CliError && ["CLOUD_FORBIDDEN_SCOPE", "CLOUD_NOT_FOUND"].includes(thrown.code)) return null;
    throw thrown;
  });
}

const queuedSchema = z.looseObject({
  url: z.string(),
  channel: z.string(),
  deployment: z.looseObject({ id: z.string(), status: z.string() }),
});
const queuedOutput = { ...queuedSchema.shape, next: z.string() };

/** Runs a command of the command line, which returns once its deployment is queued. */
async function runQueued(call: Call, command: Command, raw: Record<string, string | boolean | undefined>) {
  const { payload } = await command.execute(call.context, { wait: false, project: call.named, ...raw });
  const { url, channel, deployment } = queuedSchema.parse(payload);
  const next = `Look at it with deploy_status, deploymentId ${deployment.id}, waitSeconds ${waitSecondsMax}`;
  return { url, channel, deployment: { id: deployment.id, status: deployment.status }, next };
}

const deploy = tool({
  name: "deploy",
  title: "Deploy this directory",
  description:
    "Deploys the directory in which the server was started, as `svc deploy` does: what it packs replaces what serves on the channel, once it is built and healthy. Without a channel the manifest and the project decide.",
  effect: "destroys",
  input: { channel: z.enum(["production", "preview"]).optional() },
  output: queuedOutput,
  async run(call, { channel }) {
    const { deploy } = await import("../../commands/deploy.ts");
    return runQueued(call, deploy, {
      prod: channel === "production",
      preview: channel === "preview",
    });
  },
});

const rollback = tool({
  name: "rollback",
  title: "Roll back",
  description:
    "Puts an earlier deployment back on its channel, without building it again. Without an id: the last production deployment that another one has replaced.",
  effect: "destroys",
  input: { deploymentId: takes.deploymentId.optional() },
  output: queuedOutput,
  async run(call, { deploymentId }) {
    const id = deploymentId === undefined ? undefined : await call.deploymentId(deploymentId);
    const { rollback } = await import("../../commands/rollback.ts");
    return runQueued(call, rollback, { deploymentId: id });
  },
});

const promote = tool({
  name: "promote",
  title: "Promote a preview to production",
  description:
    "Puts what a preview runs into production, without building it again; only code goes over. Without an id: the running preview.",
  effect: "destroys",
  input: { deploymentId: takes.deploymentId.optional() },
  output: queuedOutput,
  async run(call, { deploymentId }) {
    const id = deploymentId === undefined ? undefined : await call.deploymentId(deploymentId);
    const { promote } = await import("../../commands/promote.ts");
    return runQueued(call, promote, { deploymentId: id });
  },
});

export const deploymentTools = [deployStatus, explainDeploy, deploy, rollback, promote];
