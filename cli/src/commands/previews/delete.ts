import { type Deployment, deploymentListReply, deploymentReply, removeDeploymentReply } from "@svc/proto";
import type { Api } from "../../api.ts";
import { argument, command, flag } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import type { Context } from "../../context.ts";
import { previewOf } from "../../deploy/choose.ts";
import { CliError } from "../../errors.ts";
import { isId } from "../../ids.ts";
import { poll } from "../../poll.ts";
import { resolveTarget } from "../../target.ts";

const waitMsMax = 60_000;
const pollMs = 1000;

export const previewsDelete = command({
  name: "previews delete",
  summary: "Remove a preview: what runs, and its address",
  details: "Give the number of its pull request, or the id of a preview or dev deployment.",
  flags: { project: flag.project },
  arguments: { preview: argument.required("number or id", "Pull request or deployment; see `svc status`") },
  examples: ["svc previews delete 42", "svc previews delete 42 --project shop --yes"],
  async run(context, { project, preview }) {
    const number = /^#?(\d{1,9})$/.exec(preview)?.[1];
    if (number === undefined && !isId(preview))
      throw new CliError("CLI_INVALID_USAGE", `"${preview}" is neither a pull request's number nor an id`, {
        hint: "See the previews with `svc status`",
      });
    const what = number === undefined ? `the deployment ${preview}` : `the preview of pull request ${number}`;
    requireAnswerable(context, `This removes ${what}, and its address.`);
    const api = await context.api();
    const found =
      number === undefined
        ? (await api.get(`/deployments/${preview}`, deploymentReply)).deployment
        : await findPreview(context, api, project, Number(number));
    if (found.channel === "production")
      throw new CliError("CLI_INVALID_USAGE", `${found.id} is a production deployment`, {
        hint: "Stop production with `svc stop`, or go back with `svc rollback`",
      });
    await confirmLoss(context, { loss: `This removes ${what}, and ${found.url} with it.`, name: number ?? found.id });
    await api.delete(`/deployments/${found.id}`, removeDeploymentReply);
    const facts = { url: found.url, deployment: { id: found.id, channel: found.channel } };
    if (await isGone(context, api, found.id)) return { ...facts, deleted: true };
    context.warn("It is out of the way, but not all of it is cleaned up yet");
    return { ...facts, deleted: true, queued: true };
  },
  render: ({ url }, { paint }) => `${paint("green", "✓")} Removed ${url}`,
});

async function findPreview(context: Context, api: Api, named: string | undefined, number: number) {
  const { id, slug } = await resolveTarget(context, named);
  const { deployments } = await api.get(`/projects/${id}/deployments?channel=preview&limit=100`, deploymentListReply);
  const found = previewOf(deployments, number);
  if (found !== null) return found;
  throw new CliError("CLOUD_NOT_FOUND", `${slug ?? id} has no preview of pull request ${number}`, {
    hint: "See the previews with `svc status`",
  });
}

/** Waits until the platform no longer knows the deployment; false when that takes long. */
async function isGone(context: Context, api: Api, id: Deployment["id"]): Promise<boolean> {
  const startedAtMs = context.clock.steadyMs();
  context.onInterrupt("It is removed without you. See with `svc status`");
  const activity = context.terminal.activity("Removing");
  try {
    return await poll(context, async () => {
      if (context.clock.steadyMs() - startedAtMs > waitMsMax) return { done: false };
      const found = await api.get(`/deployments/${id}`, deploymentReply).catch((thrown: unknown) => {
        if (thrown instanceof CliError && thrown.code === "CLOUD_NOT_FOUND") return null;
        throw thrown;
      });
      return found === null ? { done: true } : { delayMs: pollMs };
    });
  } finally {
    activity.stop();
  }
}
