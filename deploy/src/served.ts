import { request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";

const everyMs = 200;
const requestMs = 5_000;

/** Status of a site on loopback. The name is only sent, not looked up: the C library does not know *.localhost. */
function siteStatus(url: string): Promise<number> {
  const { port, host, hostname, protocol } = new URL(url);
  const about = { host: "127.0.0.1", port, headers: { host }, timeout: requestMs, agent: false } as const;
  return new Promise((resolve, reject) => {
    const sent =
      protocol === "https:"
        ? // Of a CA of this machine that nobody trusts.
          requestTls({ ...about, servername: hostname, rejectUnauthorized: false })
        : requestPlain(about);
    sent.once("response", (reply) => {
      reply.resume();
      resolve(reply.statusCode ?? 0);
    });
    sent.once("timeout", () => sent.destroy(new Error("no answer")));
    sent.once("error", reject);
    sent.end();
  });
}

/** Waits until the site answers without a server error; false when it does not within `timeoutMs`. */
export async function becomesServed(clock: Clock, url: string, timeoutMs: number): Promise<boolean> {
  const untilMs = clock.steadyMs() + timeoutMs;
  while (clock.steadyMs() < untilMs) {
    const status = await siteStatus(url).catch(() => 0);
    if (status >= 200 && status < 500) return true;
    await sleep(clock, everyMs);
  }
  return false;
}
