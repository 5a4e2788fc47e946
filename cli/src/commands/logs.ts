import { channels, deploymentListReply, limits } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { getNamed } from "../deploy/redeploy.ts";
import { CliError } from "../errors.ts";
import { deploymentIdOf } from "../ids.ts";
import { followBuild, readBuild } from "../logs/build.ts";
import { createFilter } from "../logs/filter.ts";
import { cutWarning, followRuntime, readable, readKept, runtimeEnding } from "../logs/runtime.ts";
import { askPatiently } from "../poll.ts";
import { resolveTarget } from "../target.ts";

export const logs = command({
  name: "logs",
  summary: "Show the build log of a deployment, or what the running app prints",
  details:
    "Without an id it is the newest deployment, on whatever channel. What a release command prints is part of the build log. Times of an app are local and short on a terminal, and whole in UTC anywhere else.",
  flags: {
    project: flag.project,
    follow: flag.toggle("-f, --follow", "Go on as more comes; a build log until the deployment ends"),
    runtime: flag.toggle("--runtime", "What the app prints, instead of the build log"),
    channel: flag.choice("--channel <channel>", "Of this channel", channels),
    deployment: flag.text("--deployment <id>", "Of this deployment; with --runtime also of one that failed to start"),
    lines: flag.integer(
      "-n, --lines <n>",
      `Only the last n lines, 1 to ${limits.runtimeLogLinesMax} (default: ${limits.runtimeLogLinesDefault} with --runtime, else all)`,
    ),
    since: flag.text(
      "--since <when>",
      "Only from then on: 15m, 1h30m, 2d, or an ISO timestamp; lines without a time are kept",
    ),
    grep: flag.text("--grep <regex>", "Only lines that fit the regular expression"),
  },
  arguments: { deploymentId: argument.optional("deploymentId", "The deployment; ignored with --runtime") },
  examples: [
    "svc logs",
    "svc logs --runtime --follow --since 15m",
    "svc logs --runtime --channel preview",
    "svc logs --runtime --deployment 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f",
    "svc logs --grep 'error|warn' --lines 50",
  ],
  async run(context, { project, follow, runtime, channel, deployment, lines, since, grep, deploymentId }) {
    if (follow && context.globals.json)
      throw new CliError("CLI_INVALID_USAGE", "--follow and --json do not go together", {
        hint: "Leave one of them out: a followed log is no single JSON object",
      });
    const keep = createFilter(context.clock.now(), since, grep);
    const isFiltered = since !== undefined || grep !== undefined;
    const meant = deployment ?? (runtime ? undefined : deploymentId);
    const named = meant === undefined ? null : deploymentIdOf(meant);
    /** What is to be known first: whoever follows waits for it as for all that comes after. */
    const find = <T>(ask: () => Promise<T>): Promise<T> => (follow ? askPatiently(context, ask) : ask());
    if (runtime) {
      const api = await context.api();
      const source = {
        projectId: await find(async () =>
          named === null ? (await resolveTarget(context, project)).id : projectOf(api, named, project),
        ),
        channel,
        deploymentId: named,
      };
      // How many there may be is the platform's to say.
      const wanted = lines ?? limits.runtimeLogLinesDefault;
      if (follow) await followRuntime(context, api, source, { keep, lines: wanted });
      const { log, isCut } = await readKept(api, source, {
        ...{ keep: isFiltered ? keep : null, greps: grep !== undefined, lines: wanted },
      });
      const { lines: kept, ...fate } = log;
      if (isCut) context.warn(cutWarning);
      for (const { text, mark } of runtimeEnding(fate, context.clock.now())) context.afterwards(text, mark);
      return { projectId: source.projectId, runtime: true as const, lines: kept, ...fate };
    }
    const api = await context.api();
    const id = named ?? (await find(() => newestDeployment(context, api, project, channel)));
    const count = lines === undefined ? null : Math.min(limits.runtimeLogLinesMax, Math.max(1, lines));
    if (follow)
      return { deploymentId: id, status: await followBuild(context, api, id, { keep, lines: count }), log: "" };
    return readBuild(context, api, id, { keep: isFiltered ? keep : null, lines: count });
  },
  render: (payload, { columns, now }) =>
    "runtime" in payload ? readable(payload.lines, columns, now).join("\n") : payload.log,
});

/** The project of a deployment that was named. CLOUD_NOT_FOUND when `--project` names another one. */
const projectOf = async (api: Api, id: string, project: string | undefined): Promise<string> =>
  (await getNamed(api, id, project)).project.id;

async function newestDeployment(
  context: Context,
  api: Api,
  project: string | undefined,
  channel: string | undefined,
): Promise<string> {
  const target = await resolveTarget(context, project);
  const only = channel === undefined ? "" : `&channel=${channel}`;
  const { deployments } = await api.get(`/projects/${target.id}/deployments?limit=1${only}`, deploymentListReply);
  const [newest] = deployments;
  if (newest !== undefined) return newest.id;
  const where = channel === undefined ? "" : ` on ${channel}`;
  throw new CliError("CLOUD_NOT_FOUND", `The project has no deployment${where} yet`, {
    hint: "Make one with `svc deploy`",
  });
}
