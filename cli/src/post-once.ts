import { sleep } from "@svc/runtime/sleep";
import type { Api, CallOptions, Schema } from "./api.ts";
import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";

/** Waits between the attempts of one call; there is one attempt more. */
const waitsMs = [1000, 3000, 6000] as const;
const troubleStatuses = [502, 503, 504];

/** Whether nobody knows what became of a call: no answer came, or one of a proxy or a platform in trouble. */
const isLost = (thrown: unknown): thrown is CliError =>
  thrown instanceof CliError &&
  thrown.code === "CLOUD_UNAVAILABLE" &&
  (thrown.server === undefined ? thrown.cause !== undefined : troubleStatuses.includes(thrown.server.status));

/**
 * Posts what creates something, under a key of its own: sent again after an answer that was lost, it still makes one.
 * Gives up after a few attempts, with what the last one ended in.
 */
export async function postOnce<T>(
  context: Context,
  api: Api,
  path: string,
  reply: Schema<T>,
  options: CallOptions = {},
): Promise<T> {
  const headers = { ...options.headers, "idempotency-key": context.random.uuid() };
  const attempt = () => api.post(path, reply, { ...options, headers });
  for (const waitMs of waitsMs) {
    try {
      return await attempt();
    } catch (thrown) {
      if (!isLost(thrown)) throw thrown;
      context.terminal.step(`${thrown.message}; sending it again`);
    }
    await sleep(context.clock, waitMs, context.signal);
  }
  return attempt();
}
