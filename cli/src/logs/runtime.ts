import { type Channel, limits, runtimeLogsReply } from "@svc/proto";
import { z } from "zod";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatAge } from "../format.ts";
import { poll } from "../poll.ts";
import type { Ending } from "./ending.ts";
import type { Filter } from "./filter.ts";
import { newLines, splitLines } from "./lines.ts";
import { createTimeTeller } from "./times.ts";

const pollMs = 2000;

/** How a container ended. Whatever a platform does not tell is null. */
const exitSchema = z.looseObject({
  code: z.int().nullable().catch(null),
  oomKilled: z.boolean().nullable().catch(null),
  reason: z.string().nullable().catch(null),
  at: z.string().nullable().catch(null),
});
export type Exit = z.output<typeof exitSchema>;

/** The reply of a platform that also knows containers that are gone, and of one that does not. */
const reply = runtimeLogsReply.extend({
  state: z.enum(["running", "exited"]).optional().catch(undefined),
  exit: exitSchema.nullish().catch(undefined),
});

/** The last lines of an app, and whether it still runs. */
export interface RuntimeLog {
  lines: string[];
  state?: "running" | "exited";
  exit?: Exit | null;
}

/** Which app: that of the deployment or the channel, or the one that the platform takes without them. `lines` is clamped there. */
export interface RuntimeSource {
  projectId: string;
  channel: Channel | undefined;
  deploymentId: string | null;
}

/** The last lines of the app: of the one that runs, else of the one that ended by itself. */
export async function readRuntime(api: Api, source: RuntimeSource, lines: number): Promise<RuntimeLog> {
  const { projectId, channel, deploymentId } = source;
  const only = `${channel === undefined ? "" : `&channel=${channel}`}${deploymentId === null ? "" : `&deployment=${deploymentId}`}`;
  const path = `/projects/${projectId}/runtime-logs?lines=${lines}${only}`;
  const { log, state, exit } = await api.get(`${path}&exited=true`, reply).catch((thrown: unknown) => {
    // A platform that only knows what runs refuses to be asked for more.
    if (thrown instanceof CliError && thrown.server?.code === "VALIDATION") return api.get(path, reply);
    throw thrown;
  });
  return {
    lines: splitLines(log),
    ...(state === undefined ? {} : { state }),
    ...(exit === undefined ? {} : { exit }),
  };
}

/**
 * The last `lines` of an app that `keep` keeps; with a filter of all that the platform gives.
 *
 * @param options.greps whether it goes by more than the time
 * @returns `isCut`: there may be older ones that it would keep
 */
export async function readKept(
  api: Api,
  source: RuntimeSource,
  { keep, greps, lines }: { keep: Filter | null; greps: boolean; lines: number },
): Promise<{ log: RuntimeLog; isCut: boolean }> {
  if (keep === null) return { log: await readRuntime(api, source, lines), isCut: false };
  const read = await readRuntime(api, source, limits.runtimeLogLinesMax);
  const kept = keep(read.lines);
  const last = kept.slice(-Math.max(1, lines));
  // By time alone, whatever is older than a line that is left out would be left out as well.
  const isOlderOut = !greps && kept.length < read.lines.length;
  const isCut = read.lines.length >= limits.runtimeLogLinesMax && last.length === kept.length && !isOlderOut;
  return { log: { ...read, lines: last }, isCut };
}

/** What to say of a log that is cut. */
export const cutWarning = `Only the last ${limits.runtimeLogLinesMax} lines of the app were looked at; there may be older ones that fit`;

/** One line on an app that is gone, in the platform's words where it has some; null for one that runs, or of which nobody knows. */
export function exitLine({ state, exit }: Omit<RuntimeLog, "lines">, now: Date): string | null {
  if (state !== "exited") return null;
  const reason = exit?.reason?.split("\n")[0]?.replace(/\.$/, "") ?? "";
  const code = exit?.code ?? null;
  const plain = `The app has exited${code === null ? "" : ` with code ${code}`}${exit?.oomKilled === true ? ", out of memory" : ""}`;
  return `${reason === "" ? plain : reason}${exit?.at ? `, ${formatAge(exit.at, now)}` : ""}`;
}

/** What the lines of an app end with: how it came to its end, or that it runs; nothing where nobody knows. */
export function runtimeEnding(log: Omit<RuntimeLog, "lines">, now: Date): Ending[] {
  const exit = exitLine(log, now);
  if (exit !== null) return [{ text: exit, mark: "failed" }];
  return log.state === "running" ? [{ text: "The app is running", mark: "done" }] : [];
}

/** Lines as whoever looks at them wants their times: short ones of the place where a terminal stands, else as they came. */
export const readable = (lines: readonly string[], columns: number | null, now: Date): string[] =>
  columns === null ? [...lines] : lines.map(createTimeTeller(now));

/** Prints what the app says until it is interrupted. The API gives the last lines, so each reading is joined to the one before. */
export async function followRuntime(
  context: Context,
  api: Api,
  source: RuntimeSource,
  { keep, lines: first }: { keep: Filter; lines: number },
): Promise<never> {
  let seen: string[] | null = null;
  let told: string | null = null;
  return poll(context, async () => {
    // Each time as many as there may be: readings of different lengths would not join.
    const current = await readRuntime(api, source, limits.runtimeLogLinesMax).catch((thrown: unknown) => {
      // Between two deployments there may be no app for a moment; at the start that is the answer.
      if (seen !== null && thrown instanceof CliError && thrown.server?.code === "RUNTIME_LOGS_UNAVAILABLE")
        return null;
      throw thrown;
    });
    // What was seen stays: the same app may be back, and its lines are not new then.
    if (current === null) return { delayMs: pollMs };
    const { lines, gap } = newLines(seen ?? [], current.lines);
    if (gap) context.terminal.step("The app was replaced or said more than could be read; lines may be missing");
    const kept = keep(lines);
    const shown = seen === null ? kept.slice(-Math.max(1, first)) : kept;
    context.stream(readable(shown, context.columns, context.clock.now()));
    // An exit is told once, after the last words.
    const exit = current.state === "exited" ? JSON.stringify(current.exit ?? null) : null;
    const line = exit === told ? null : exitLine(current, context.clock.now());
    if (line !== null) context.terminal.step(line, "failed");
    told = exit;
    seen = current.lines;
    return { delayMs: pollMs };
  });
}
