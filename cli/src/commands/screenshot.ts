import { resolve } from "node:path";
import { deploymentReply, screenshotReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { placeOf, saveWhole } from "../database/saved-file.ts";
import { addressedOn } from "../deploy/choose.ts";
import { getNamed, listDeployments, type Source } from "../deploy/redeploy.ts";
import { CliError } from "../errors.ts";
import { formatAge, formatBytes } from "../format.ts";
import { poll } from "../poll.ts";
import { postOnce } from "../post-once.ts";
import { getProject, projectFacts } from "../target.ts";

const lookMs = 1000;
/** A picture takes seconds, and is tried three times within that. */
const waitMsMax = 5 * 60_000;
const placeFlag = "--out <path>";

export const screenshot = command({
  name: "screenshot",
  summary: "Have a picture taken of what visitors of a deployment see, and write it to a file",
  details:
    "Without an id it is what runs on production, or on the preview with --channel. Once in ten minutes for each deployment: before that it is the picture that there is. The file is a PNG, and only you can read it (mode 0600). A file of its name is replaced.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "What runs on this channel; default: production", [
      "production",
      "preview",
    ]),
    out: flag.text(placeFlag, "The file to write, or a directory that is there (default: <slug>-<channel>.png, here)"),
  },
  arguments: { deploymentId: argument.optional("deploymentId", "The deployment; see `svc status`") },
  examples: [
    "svc screenshot",
    "svc screenshot --channel preview --out preview.png",
    "svc screenshot 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --json",
  ],
  async run(context, { project: named, channel, out = ".", deploymentId }) {
    if (deploymentId !== undefined && channel !== undefined)
      throw new CliError("CLI_INVALID_USAGE", "A deployment and --channel do not go together", {
        hint: "Leave one of them out: a deployment is on one channel",
      });
    const api = await context.api();
    const { project, source } =
      deploymentId === undefined
        ? await findRunning(context, api, named, channel ?? "production")
        : await getNamed(api, deploymentId, named);
    const name = `${project.slug}-${source.channel}.png`;
    // Before anything is asked for: a picture that has no place is taken for nothing.
    const path = await placeOf(resolve(context.cwd, out), name, placeFlag);
    context.onInterrupt("The picture is taken without you. `svc screenshot` has it in a moment");
    const capturedAt = await capture(context, api, source);
    const sizeBytes = await save(api, source.id, path);
    const { id, channel: on, url } = source;
    return { project: projectFacts(project), url, deployment: { id, channel: on }, capturedAt, path, sizeBytes };
  },
  render: ({ path, sizeBytes, capturedAt }, { paint, now }) =>
    `${paint("green", "✓")} Wrote ${path}, ${formatBytes(sizeBytes)}, taken ${formatAge(capturedAt, now)}`,
});

async function findRunning(context: Context, api: Api, named: string | undefined, on: "production" | "preview") {
  const { project } = await getProject(context, named);
  const running = await listDeployments(api, project.id, `channel=${on}&status=running&limit=100`);
  return { project, source: addressedOn(running, on) };
}

/** Asks for a picture and waits until it is there; returns of when it is. The last one where another may not be asked for yet. */
async function capture(context: Context, api: Api, { id, screenshotCapturedAt: last = null }: Source): Promise<string> {
  try {
    await postOnce(context, api, `/deployments/${id}/screenshot`, screenshotReply);
  } catch (thrown) {
    if (!(thrown instanceof CliError) || thrown.server?.code !== "RATE_LIMITED") throw thrown;
    if (last !== null) {
      context.warn("One was taken or asked for in the last ten minutes: this is the newest that there is");
      return last;
    }
  }
  const startedAtMs = context.clock.steadyMs();
  const activity = context.terminal.activity("Taking a picture");
  try {
    return await poll(context, async () => {
      const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
      const capturedAt = deployment.screenshotCapturedAt ?? null;
      if (capturedAt !== null && capturedAt !== last) return { done: capturedAt };
      if (context.clock.steadyMs() - startedAtMs > waitMsMax)
        throw new CliError("CLOUD_REQUEST_FAILED", "No picture was taken within 5 minutes", {
          hint: "See whether the site answers with `svc verify`, and try again in ten minutes",
        });
      return { delayMs: lookMs };
    });
  } finally {
    activity.stop();
  }
}

const save = (api: Api, id: string, path: string): Promise<number> =>
  api.download(`/deployments/${id}/screenshot`, ({ chunks, sizeBytes }) =>
    saveWhole(path, chunks, {
      what: "The picture",
      placeFlag,
      check(written) {
        if (sizeBytes === null || written === sizeBytes) return;
        throw new CliError("CLOUD_UNAVAILABLE", `The download ended after ${written} of ${sizeBytes} bytes`, {
          hint: "Run the command again",
        });
      },
    }),
  );
