import { channels, deploymentListReply, limits } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { deploymentIdOf } from "../ids.ts";
import { followBuild, readBuild } from "../logs/build.ts";
import { createFilter } from "../logs/filter.ts";
import { exitLine, followRuntime, readRuntime } from "../logs/runtime.ts";
import { resolveTarget } from "../target.ts";

export const logs = command({
  name: "logs",
  summary: "Show the build log of a deployment, or what the running app prints",
  details:
    "Without an id it is the newest deployment, on whatever channel. What a release command prints is part of the build log.",
  flags: {
    project: flag.project,
    follow: flag.toggle("-f, --follow", "Go on as more comes; a build log until the deployment ends"),
    runtime: flag.toggle("--runtime", "What the app prints, instead of the build log"),
    channel: flag.choice("--channel <channel>", "Of this channel", channels),
    lines: flag.integer(
      "--lines <n>",
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
    "svc logs --grep 'error|warn' --lines 50",
  ],
  async run(context, { project, follow, runtime, channel, lines, since, grep, deploymentId }) {
    if (follow && context.globals.json)
      throw new CliError("CLI_INVALID_USAGE", "--follow and --json do not go together", {
        hint: "Leave one of them out: a followed log is no single JSON object",
      });
    const keep = createFilter(context.now(), since, grep);
    const named = runtime || deploymentId === undefined ? null : deploymentIdOf(deploymentId);
    if (runtime) {
      const { id } = await resolveTarget(context, project);
      const api = await context.api();
      const source = { projectId: id, channel };
      // How many there may be is the platform's to say.
      const wanted = lines ?? limits.runtimeLogLinesDefault;
      if (follow) await followRuntime(context, api, source, { keep, lines: wanted });
      const { lines: read, ...fate } = await readRuntime(api, source, wanted);
      const exit = exitLine(fate, context.now());
      if (exit !== null) context.terminal.step(`${exit}. Its last lines:`, "failed");
      return { projectId: id, runtime: true as const, lines: keep(read), ...fate };
    }
    const api = await context.api();
    const id = named ?? (await newestDeployment(context, api, project, channel));
    const count = lines === undefined ? null : Math.min(limits.runtimeLogLinesMax, Math.max(1, lines));
    if (follow)
      return { deploymentId: id, status: await followBuild(context, api, id, { keep, lines: count }), log: "" };
    const isFiltered = since !== undefined || grep !== undefined;
    return readBuild(api, id, { keep: isFiltered ? keep : null, lines: count });
  },
  render: (payload) => ("runtime" in payload ? payload.lines.join("\n") : payload.log),
});

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
