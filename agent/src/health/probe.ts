import { request } from "node:http";
import type { Clock } from "@svc/runtime/clock";

/** What one look at a container's health path found. */
export interface Probe {
  healthy: boolean;
  /** For the person who deployed: "it answered /health with 500", "nothing accepted a connection on its port". */
  seen: string;
  /** What to do about it; empty when that is not known. */
  hint: string;
}

/** GETs the health path. Any 2xx or 3xx is healthy; the body is not read. */
export function probe(
  clock: Clock,
  upstream: string,
  path: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Probe> {
  return new Promise((resolve) => {
    const call = request(`http://${upstream}${path}`, {
      // A connection of its own: a kept one would hide that the container refuses new ones.
      agent: false,
      signal,
      headers: { host: `localhost:${upstream.slice(upstream.lastIndexOf(":") + 1)}`, "user-agent": "svc-health" },
    });
    // For the whole of it: an app that sends a byte now and then never falls silent.
    const timer = clock.after(timeoutMs, () => {
      settle({ seen: `it did not answer ${path} within ${seconds(timeoutMs)}`, hint: hintOf(null) });
      call.destroy();
    });
    const settle = (found: Partial<Probe>): void => {
      timer[Symbol.dispose]();
      resolve({ healthy: false, seen: "", hint: "", ...found });
    };
    call.on("response", (reply) => {
      const status = reply.statusCode ?? 0;
      reply.destroy();
      const healthy = status >= 200 && status < 400;
      settle({ healthy, seen: `it answered ${path} with ${status}`, hint: healthy ? "" : hintOf(status) });
    });
    call.on("error", (cause) => settle({ seen: describe(cause) }));
    call.end();
  });
}

const seconds = (timeMs: number): string => `${Math.max(1, Math.round(timeMs / 1000))} s`;

/** @param status null when there was no answer */
function hintOf(status: number | null): string {
  if (status === null) return "The connection was open all the while: something in the app keeps it from answering.";
  if (status >= 500) return "The app failed while it answered; its log may say why.";
  return "Set health.path in the manifest to a path that answers with 2xx or 3xx.";
}

function describe(cause: Error): string {
  const code = "code" in cause ? cause.code : "";
  // The engine's port proxy accepts for the container and hangs up when nobody listens inside.
  if (code === "ECONNREFUSED" || code === "ECONNRESET") return "nothing accepted a connection on its port";
  if (String(code).startsWith("HPE_")) return "what it answered is not HTTP";
  return cause.message;
}

/** Pause before the next look: short at first, because a deployment waits for it. */
export function probePauseMs(elapsedMs: number): number {
  if (elapsedMs < 5_000) return 50;
  if (elapsedMs < 30_000) return 200;
  return 1_000;
}
