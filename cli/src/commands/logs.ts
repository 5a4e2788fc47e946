import { deploymentListReply, deploymentReply, isSettled, limits, runtimeLogsReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { createLogTail, readWholeLog } from "../deploy/log-tail.ts";
import { CliError } from "../errors.ts";
import { createGrep } from "../logs/grep.ts";
import { newLines, splitLines } from "../logs/lines.ts";
import { isSince, parseSince } from "../logs/since.ts";
import { poll, pollDelay } from "../poll.ts";
import { resolveTarget } from "../target.ts";

const runtimePollMs = 2000;

/** What the flags leave of some lines of a log. */
type Filter = (lines: readonly string[]) => string[];

export const logs = command({
  name: "logs",
  summary: "Show the build log of a deployment, or what the running app prints",
  details: "Without an id it is the newest deployment, on whatever channel.",
  flags: {
    project: flag.project,
    follow: flag.toggle("-f, --follow", "Go on as more comes; a build log until the deployment ends"),
    runtime: flag.toggle("--runtime", "What the production app prints, instead of the build log"),
    lines: flag.integer(
      "--lines <n>",
      `Only the last n lines (with --runtime: 1 to ${limits.runtimeLogLinesMax}, default ${limits.runtimeLogLinesDefault})`,
    ),
    since: flag.text(
      "--since <when>",
      "Only from then on: 15m, 1h30m, 2d, or an ISO timestamp; lines without a time are kept",
    ),
    grep: flag.text("--grep <regex>", "Only lines that fit the regular expression"),
  },
  arguments: { deploymentId: argument.optional("deploymentId", "The deployment; ignored with --runtime") },
  examples: ["svc logs", "svc logs --runtime --follow --since 15m", "svc logs --grep 'error|warn' --lines 50"],
  async run(context, { project, follow, runtime, lines, since, grep, deploymentId }) {
    if (follow && context.globals.json)
      throw new CliError("CLI_INVALID_USAGE", "--follow and --json do not go together", {
        hint: "Leave one of them out: a followed log is no single JSON object",
      });
    const keep = createFilter(context, since, grep);
    if (runtime) {
      const { id } = await resolveTarget(context, project);
      const api = await context.api();
      const wanted = lines ?? limits.runtimeLogLinesDefault;
      if (follow) await followRuntime(context, api, id, wanted, keep);
      const shown = follow ? [] : keep(await readRuntime(api, id, wanted));
      return { projectId: id, runtime: true as const, lines: shown };
    }
    const api = await context.api();
    const id = deploymentId === undefined ? await newestDeployment(context, api, project) : checkedId(deploymentId);
    if (follow) return { deploymentId: id, status: await followBuild(context, api, id, keep), log: "" };
    const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
    const log = await readWholeLog(api, id);
    // Untouched unless something is to be left out, so that a log without a last line feed stays without.
    if (lines === undefined && since === undefined && grep === undefined)
      return { deploymentId: id, status: deployment.status, log };
    const kept = keep(splitLines(log)).slice(lines === undefined ? 0 : -lines);
    return { deploymentId: id, status: deployment.status, log: kept.map((line) => `${line}\n`).join("") };
  },
  render: (payload) => (payload.runtime ? payload.lines.join("\n") : payload.log),
});

/** Reads --since and --grep; what is wrong with them is told before anything is called. */
function createFilter(context: Context, since: string | undefined, grep: string | undefined): Filter {
  const from = since === undefined ? null : parseSince(since, context.now());
  if (since !== undefined && from === null)
    throw new CliError("CLI_INVALID_USAGE", `--since: "${since}" is neither a span nor a timestamp`, {
      hint: "Write 90s, 15m, 1h30m, 2d, or an ISO timestamp such as 2030-01-31T12:00:00Z",
    });
  const fits = grep === undefined ? null : createGrep(grep);
  return (lines) => {
    const young = from === null ? lines : lines.filter((line) => isSince(line, from));
    return fits === null ? [...young] : fits(young);
  };
}

function checkedId(text: string): string {
  if (/^[0-9a-f-]{36}$/i.test(text)) return text;
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is not the id of a deployment`, {
    hint: "See the deployments with `svc status`",
  });
}

async function newestDeployment(context: Context, api: Api, project: string | undefined): Promise<string> {
  const target = await resolveTarget(context, project);
  const { deployments } = await api.get(`/projects/${target.id}/deployments?limit=1`, deploymentListReply);
  const [newest] = deployments;
  if (newest !== undefined) return newest.id;
  throw new CliError("CLOUD_NOT_FOUND", "The project has no deployment yet", { hint: "Make one with `svc deploy`" });
}

/** Prints a build log as it grows, until its deployment has ended; returns the status it ended with. */
async function followBuild(context: Context, api: Api, id: string, keep: Filter): Promise<string> {
  const tail = createLogTail(context, api, id, (text) => context.stream(keep(splitLines(text))));
  const startedAt = performance.now();
  return poll(context, async () => {
    const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
    await tail.read();
    if (!isSettled(deployment.status)) return { delayMs: pollDelay(performance.now() - startedAt) };
    tail.flush();
    context.terminal.step(
      `The deployment is ${deployment.status}${deployment.error === null ? "" : `: ${deployment.error}`}`,
    );
    return { done: deployment.status };
  });
}

/** Prints what the app says until it is interrupted. The API gives the last lines, so each reading is joined to the one before. */
async function followRuntime(
  context: Context,
  api: Api,
  projectId: string,
  first: number,
  keep: Filter,
): Promise<never> {
  let seen: string[] | null = null;
  return poll(context, async () => {
    const current = await readRuntime(api, projectId, seen === null ? first : limits.runtimeLogLinesMax).catch(
      (thrown: unknown) => {
        // Between two deployments there may be no app for a moment; at the start that is the answer.
        if (seen !== null && thrown instanceof CliError && thrown.server?.code === "RUNTIME_LOGS_UNAVAILABLE")
          return [];
        throw thrown;
      },
    );
    const { lines, gap } = newLines(seen ?? [], current);
    if (gap) context.terminal.step("The app was replaced or said more than could be read; lines may be missing");
    context.stream(keep(lines));
    seen = current;
    return { delayMs: runtimePollMs };
  });
}

async function readRuntime(api: Api, projectId: string, lines: number): Promise<string[]> {
  const { log } = await api.get(`/projects/${projectId}/runtime-logs?lines=${lines}`, runtimeLogsReply);
  return splitLines(log);
}
