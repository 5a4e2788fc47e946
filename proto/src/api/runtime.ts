import { z } from "zod";
import { limits } from "../limits.ts";
import { count, id, success } from "./envelope.ts";

/** Lines of a running container to read: clamped to what is allowed; anything that is no number is the default. */
export const runtimeLogsQuery = z.strictObject({
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

/** `log` is the text, `lines` how many lines it has. */
export const runtimeLogsReply = success({ log: z.string(), lines: count });
export type RuntimeLogsReply = z.output<typeof runtimeLogsReply>;

/** Stop and start of the production deployment: queued; `deploymentId` is the one to watch. */
export const lifecycleReply = success({ queued: z.literal(true), deploymentId: id, jobId: z.string().optional() });
export type LifecycleReply = z.output<typeof lifecycleReply>;
