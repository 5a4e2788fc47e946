import { deploymentReply, isSettled } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { createLogTail, readWholeLog } from "../deploy/log-tail.ts";
import { poll, pollDelay } from "../poll.ts";
import { endingOf } from "./ending.ts";
import type { Filter } from "./filter.ts";
import { splitLines } from "./lines.ts";

/** What is left of the build log of a deployment: the last `lines` that `keep` keeps, or all with null; and its end. */
export async function readBuild(
  context: Context,
  api: Api,
  id: string,
  { keep, lines }: { keep: Filter | null; lines: number | null },
): Promise<{ deploymentId: string; status: string; log: string }> {
  const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
  const log = await readWholeLog(api, id);
  const { status } = deployment;
  for (const { text, mark } of endingOf(deployment)) context.afterwards(text, mark);
  // Untouched unless something is to be left out, so that a log without a last line feed stays without.
  if (keep === null && lines === null) return { deploymentId: id, status, log };
  const kept = lastOf(keep === null ? splitLines(log) : keep(splitLines(log)), lines);
  return { deploymentId: id, status, log: kept.map((line) => `${line}\n`).join("") };
}

/** Prints a build log as it grows, from its last `lines` on, until its deployment has ended; returns the status it ended with. */
export async function followBuild(
  context: Context,
  api: Api,
  id: string,
  { keep, lines }: { keep: Filter; lines: number | null },
): Promise<string> {
  context.onInterrupt(`The deployment goes on without you. See how it ended with \`svc logs ${id}\``);
  // What is there at the beginning is gathered first, to know its last lines.
  let gathered: string[] | null = [];
  const tail = createLogTail(api, id, (text) => {
    const kept = keep(splitLines(text));
    if (gathered === null) context.stream(kept);
    else gathered.push(...kept);
  });
  const startedAtMs = context.clock.steadyMs();
  return poll(context, async () => {
    const { deployment } = await api.get(`/deployments/${id}`, deploymentReply);
    const { status } = deployment;
    await tail.read();
    if (isSettled(status)) tail.flush();
    if (gathered !== null) context.stream(lastOf(gathered, lines));
    gathered = null;
    if (!isSettled(status)) return { delayMs: pollDelay(context.clock.steadyMs() - startedAtMs) };
    for (const { text, mark } of endingOf(deployment)) context.afterwards(text, mark);
    return { done: status };
  });
}

const lastOf = (lines: readonly string[], count: number | null): string[] =>
  count === null ? [...lines] : lines.slice(-count);
