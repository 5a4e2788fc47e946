import { limits } from "@svc/proto";
import { z } from "zod";
import { readWholeLog } from "../../deploy/log-tail.ts";
import { createFilter } from "../../logs/filter.ts";
import { splitLines } from "../../logs/lines.ts";
import { cutWarning, readKept } from "../../logs/runtime.ts";
import { lastPage } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { findDeployment } from "./deployments.ts";
import { takes } from "./fields.ts";

/** What a filter leaves of a log, or all of it. */
export function filtered(
  log: string,
  now: Date,
  { since, grep }: { since?: string | undefined; grep?: string | undefined },
) {
  if (since === undefined && grep === undefined) return log;
  return createFilter(
    now,
    since,
    grep,
  )(splitLines(log))
    .map((line) => `${line}\n`)
    .join("");
}

export const pageOutput = {
  olderCursor: z.string().nullable().describe("Send it as cursor for what was printed before; null: that is all"),
  untrusted: untrusted({ log: z.string() }),
};

const buildLog = tool({
  name: "build_log",
  title: "Read a build log",
  description:
    "The end of the build log of a deployment, the output of its release command included; older parts with the cursor. What a running app prints is runtime_log's.",
  effect: "reads",
  input: {
    deploymentId: takes.deploymentId.optional().describe("Default: the newest deployment"),
    channel: takes.channel,
    grep: takes.grep,
    cursor: takes.cursor,
  },
  output: { deploymentId: z.string(), status: z.string(), ...pageOutput },
  async run(call, { grep, cursor, ...named }) {
    const { id, status } = await findDeployment(call, named);
    const log = filtered(await readWholeLog(call.api, id), call.context.clock.now(), { grep });
    const { text, olderCursor } = lastPage(log, cursor === undefined ? undefined : Number(cursor));
    return { deploymentId: id, status, olderCursor, untrusted: { log: text } };
  },
});

const linesDefault = limits.runtimeLogLinesDefault;

const runtimeLog = tool({
  name: "runtime_log",
  title: "Read what the app prints",
  description:
    "The last lines that the running app printed, or said before it ended or failed to start. Lines begin with their time in UTC.",
  effect: "reads",
  input: {
    channel: takes.channel,
    deploymentId: takes.deploymentId.optional(),
    lines: z.int().min(1).max(limits.runtimeLogLinesMax).optional().describe(`Default: ${linesDefault}`),
    since: takes.since,
    grep: takes.grep,
  },
  output: {
    state: z.enum(["running", "exited"]).optional(),
    exit: z
      .looseObject({ code: z.number().nullable(), oomKilled: z.boolean().nullable(), at: z.string().nullable() })
      .optional(),
    untrusted: untrusted({ log: z.string(), exitReason: z.string().nullable().optional() }),
  },
  async run(call, { channel, deploymentId, lines = linesDefault, since, grep }) {
    const { id: projectId } = await call.target();
    const id = deploymentId === undefined ? null : await call.deploymentId(deploymentId);
    const isFiltered = since !== undefined || grep !== undefined;
    const keep = isFiltered ? createFilter(call.context.clock.now(), since, grep) : null;
    const source = { projectId, channel, deploymentId: id };
    const { log: read, isCut } = await readKept(call.api, source, { keep, greps: grep !== undefined, lines });
    if (isCut) call.context.warn(cutWarning);
    const { text, olderCursor } = lastPage(read.lines.map((line) => `${line}\n`).join(""));
    const { code, oomKilled, at, reason } = read.exit ?? {};
    return {
      ...(read.state !== undefined && { state: read.state }),
      ...(read.exit && { exit: { code: code ?? null, oomKilled: oomKilled ?? null, at: at ?? null } }),
      untrusted: { log: text, ...(reason !== undefined && { exitReason: reason }) },
      ...(olderCursor !== null && { cut: "Older lines were left out: ask for fewer with since or grep" }),
    };
  },
});

export const logTools = [buildLog, runtimeLog];
