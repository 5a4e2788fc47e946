import { z } from "zod";
import { limits } from "../limits.ts";
import { warnings } from "./deployment.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";

/**
 * `lines` of a container to read: clamped to what is allowed. The container is that of the channel (production unless
 * named), or of one deployment. With `exited=true` also one that has ended by itself.
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
    .regex(/^[+-]?[0-9]+$/, "is not a whole number")
    .default(String(limits.runtimeLogLinesDefault))
    .transform((text) => Math.min(limits.runtimeLogLinesMax, Math.max(1, Number(text)))),
});

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

/**
 * Stop and start of the production deployment: queued; `deploymentId` is the one to watch. `warnings` tell what becomes
 * of deployments that are on their way.
 */
export const lifecycleReply = success({
  queued: z.literal(true),
  deploymentId: id,
  jobId: z.string().optional(),
  warnings,
});
export type LifecycleReply = z.output<typeof lifecycleReply>;
