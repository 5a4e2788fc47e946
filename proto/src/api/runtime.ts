import { z } from "zod";
import { limits } from "../limits.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";

/**
 * `lines` of a container to read: clamped to what is allowed; anything that is no number is the default. The container
 * is that of the channel (production unless named), or of one deployment. With `exited=true` also one that has ended by itself.
 */
export const runtimeLogsQuery = z.strictObject({
  channel: channel.exactOptional(),
  deployment: id.exactOptional(),
  exited: z
    .enum(["true", "false"])
    .default("false")
    .transform((text) => text === "true"),
  lines: z
    .string()
    .optional()
    .transform((text) => clampLines(text)),
});

/** `text` as a number of lines, 1 to 2000; 200 when it is none. */
export function clampLines(text: string | undefined): number {
  const lines = text === undefined || !/^[+-]?[0-9]{1,15}$/.test(text) ? limits.runtimeLogLinesDefault : Number(text);
  return Math.min(limits.runtimeLogLinesMax, Math.max(1, lines));
}

/** The end of a container that nobody asked for. `code` is null when it still ran and was given up. */
export const runtimeExit = replyObject({
  code: z.int().nullable(),
  oomKilled: z.boolean(),
  reason: z.string(),
  at: timestamp,
});
export type RuntimeExit = z.output<typeof runtimeExit>;

/** `log` is the text, `lines` how many lines it has. `exit` is null while the container runs. */
export const runtimeLogsReply = success({
  log: z.string(),
  lines: count,
  state: z.enum(["running", "exited"]),
  exit: runtimeExit.nullable(),
});
export type RuntimeLogsReply = z.output<typeof runtimeLogsReply>;

/** Stop and start of the production deployment: queued; `deploymentId` is the one to watch. */
export const lifecycleReply = success({ queued: z.literal(true), deploymentId: id, jobId: z.string().optional() });
export type LifecycleReply = z.output<typeof lifecycleReply>;
