import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { loopbackAgent } from "./edge.ts";

const tickMs = 5;
const failuresKept = 50;

export interface LoadOptions {
  url: string;
  ratePerSecond: number;
  /** Ends the load; requests under way are still waited for. */
  until: AbortSignal;
  connections?: number;
  timeoutMs?: number;
}

export interface LoadReport {
  sent: number;
  ok: number;
  /** Everything else: connection errors, timeouts, and answers of 400 and above. */
  failed: number;
  /** The first failures: when after the start, and what. */
  failures: { atMs: number; what: string }[];
  /** From when a request was due, not from when it was sent: waiting for a connection counts. */
  latencyMs: { p50: number; p99: number; max: number };
}

/**
 * Sends requests at a fixed rate whether or not earlier ones were answered, over kept-alive connections,
 * as many visitors together do. Each request that is not answered well counts; none is repeated.
 */
export async function openLoopLoad(options: LoadOptions): Promise<LoadReport> {
  const { url, ratePerSecond, until, connections = 64, timeoutMs = 10_000 } = options;
  await using agent = disposable(loopbackAgent({ connections, pipelining: 1, keepAliveTimeout: 60_000 }));
  const { origin, pathname, search } = new URL(url);
  const startedAt = performance.now();
  const latencies: number[] = [];
  const failures: LoadReport["failures"] = [];
  const pending = new Set<Promise<void>>();
  let sent = 0;
  let failed = 0;

  async function one(dueAt: number): Promise<void> {
    let what: string | null = null;
    try {
      const reply = await agent.request({
        origin,
        path: `${pathname}${search}`,
        method: "GET",
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      await reply.body.dump();
      if (reply.statusCode >= 400) what = `status ${reply.statusCode}`;
    } catch (error) {
      what =
        error instanceof Error
          ? `${"code" in error ? String(error.code) : error.name} ${error.message}`
          : String(error);
    }
    if (what === null) {
      latencies.push(performance.now() - dueAt);
      return;
    }
    failed += 1;
    if (failures.length < failuresKept) failures.push({ atMs: Math.round(dueAt - startedAt), what });
  }

  while (!until.aborted) {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * ratePerSecond);
    for (; sent < due; sent += 1) {
      const request = one(startedAt + (sent / ratePerSecond) * 1000);
      pending.add(request);
      void request.finally(() => pending.delete(request));
    }
    await delay(tickMs, undefined, { signal: until }).catch(() => {});
  }
  await Promise.all(pending);
  latencies.sort((a, b) => a - b);
  const at = (share: number) =>
    Math.round((latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0) * 10) / 10;
  return { sent, ok: latencies.length, failed, failures, latencyMs: { p50: at(0.5), p99: at(0.99), max: at(1) } };
}

const disposable = <T extends { close(): Promise<void> }>(agent: T) =>
  Object.assign(agent, { [Symbol.asyncDispose]: () => agent.close() });
