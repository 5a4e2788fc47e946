import { deploymentReply, limits, urlPathProblem } from "@svc/proto";
import { sleep } from "@svc/runtime/sleep";
import { z } from "zod";
import type { Api } from "../api.ts";
import { command, flag } from "../command.ts";
import { type Context, userAgent } from "../context.ts";
import { CliError } from "../errors.ts";
import type { Http } from "../http.ts";
import { findManifest } from "../manifest-file.ts";
import { webUrl } from "../origin.ts";
import { getProject, projectFacts } from "../target.ts";

const intervalMs = 3000;
const requestMs = 10_000;

/** What a site is asked for, and for how long. */
interface Health {
  path: string;
  timeoutSeconds: number;
}

/** The part of a manifest snapshot that matters here. */
const snapshot = z.looseObject({
  health: z.looseObject({
    path: z.string().refine((path) => urlPathProblem(path) === null),
    timeoutSeconds: z.int().min(1).max(limits.healthTimeoutSecondsMax),
  }),
});

export const verify = command({
  name: "verify",
  summary: "Ask the site's health path until it answers 200",
  details: `Asks every ${intervalMs / 1000} seconds, for as long as health.timeoutSeconds says (60 by default). Redirects are not followed.`,
  flags: { project: flag.project },
  examples: ["svc verify", "svc verify --project shop"],
  async run(context, { project: named }) {
    const { project, deployments } = await getProject(context, named);
    const live = deployments.find(({ channel, status }) => channel === "production" && status === "running");
    const health = await healthOf(context, await context.api(), live?.id ?? null, named);
    const site = webUrl(project.url);
    if (site === null)
      throw new CliError("VERIFY_FAILED", "The address of the project is not a web address", {
        hint: "See the address with `svc status`",
      });
    const url = `${site.replace(/\/$/, "")}${health.path}`;
    const status = await askUntilHealthy(context, url, health.timeoutSeconds * 1000);
    return { url: project.url, project: projectFacts(project), health: { url, status } };
  },
  render: ({ health }, { paint }) => `${paint("green", "✓")} ${health.url} answers ${health.status}`,
});

/** How the running deployment wants to be asked; without one, how the manifest here says; else the defaults. */
async function healthOf(context: Context, api: Api, liveId: string | null, named: string | undefined): Promise<Health> {
  if (liveId !== null) {
    const { deployment } = await api.get(`/deployments/${liveId}`, deploymentReply);
    const parsed = snapshot.safeParse(deployment.manifest);
    if (parsed.success) return parsed.data.health;
  }
  const manifest = named === undefined ? await findManifest(await context.manifestPlace()) : null;
  return manifest?.health ?? { path: "/", timeoutSeconds: limits.healthTimeoutSecondsDefault };
}

/** The last answer, or why there was none. */
type Answer = { status: number; location: string | null } | { failure: string };

async function askUntilHealthy(context: Context, url: string, limitMs: number): Promise<number> {
  const http = await context.http();
  const endsAtMs = context.clock.steadyMs() + limitMs;
  const activity = context.terminal.activity(`Asking ${url}`);
  try {
    for (;;) {
      const answer = await ask(
        context,
        http,
        url,
        Math.min(requestMs, Math.max(1000, endsAtMs - context.clock.steadyMs())),
      );
      if ("status" in answer && answer.status === 200) return answer.status;
      const seen = describe(answer);
      context.terminal.verbose(seen);
      activity.update(`Asking ${url}: ${seen}`);
      const leftMs = endsAtMs - context.clock.steadyMs();
      if (leftMs <= 0) throw failed(url, limitMs, answer);
      // The last look is at the very end.
      await sleep(context.clock, Math.min(intervalMs, leftMs), context.signal);
    }
  } finally {
    activity.stop();
  }
}

async function ask(context: Context, http: Http, url: string, timeoutMs: number): Promise<Answer> {
  try {
    const headers = { "user-agent": userAgent };
    const { status, header } = await http.send({
      method: "GET",
      url,
      headers,
      timeoutMs,
      maxBytes: 0,
      signal: context.signal,
    });
    return { status, location: header("location") };
  } catch (thrown) {
    if (thrown instanceof CliError && thrown.code === "CLOUD_UNAVAILABLE") return { failure: thrown.message };
    throw thrown;
  }
}

const describe = (answer: Answer): string => ("failure" in answer ? answer.failure : `it answers ${answer.status}`);

function failed(url: string, limitMs: number, answer: Answer): CliError {
  const message = `${url} did not answer 200 within ${limitMs / 1000} s; last: ${describe(answer)}`;
  return new CliError("VERIFY_FAILED", message, { hint: adviceFor(answer) });
}

function adviceFor(answer: Answer): string {
  if ("failure" in answer || answer.status === 503) return "See what runs with `svc status`";
  if (answer.location !== null)
    return `It redirects to ${answer.location}; let health.path be one that answers 200 itself, then run \`svc deploy\``;
  if (answer.status === 401) return "The site asks for a password; remove it, or let the app answer itself";
  return "See what the app says with `svc logs --runtime`";
}
