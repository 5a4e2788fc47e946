import { request } from "node:http";

/** What one look at a container's health path found. */
export type Probe = {
  healthy: boolean;
  /** For the person who deployed: "it answered 500", "the connection was refused". */
  seen: string;
};

/** GETs the health path. Any 2xx or 3xx is healthy; the body is not read. */
export function probe(upstream: string, path: string, timeoutMs: number, signal: AbortSignal): Promise<Probe> {
  return new Promise((resolve) => {
    const fail = (seen: string): void => resolve({ healthy: false, seen });
    const call = request(
      `http://${upstream}${path}`,
      {
        // A connection of its own: a kept one would hide that the container refuses new ones.
        agent: false,
        signal,
        timeout: timeoutMs,
        headers: { host: `localhost:${upstream.slice(upstream.lastIndexOf(":") + 1)}`, "user-agent": "svc-health" },
      },
      (reply) => {
        const status = reply.statusCode ?? 0;
        reply.destroy();
        resolve({ healthy: status >= 200 && status < 400, seen: `it answered ${path} with ${status}` });
      },
    );
    call.on("timeout", () => {
      fail(`it did not answer ${path} within ${timeoutMs / 1000} s`);
      call.destroy();
    });
    call.on("error", (cause) => fail(describe(cause)));
    call.end();
  });
}

function describe(cause: Error): string {
  const code = "code" in cause ? cause.code : "";
  // The engine's port proxy accepts for the container and hangs up when nobody listens inside.
  if (code === "ECONNREFUSED" || code === "ECONNRESET") return "nothing accepted a connection on its port";
  return cause.message;
}

/** Pause before the next look: short at first, because a deployment waits for it. */
export function probePauseMs(elapsedMs: number): number {
  if (elapsedMs < 5_000) return 50;
  if (elapsedMs < 30_000) return 200;
  return 1_000;
}
