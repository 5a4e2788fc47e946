import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { loopbackAgent } from "../../support/edge.ts";

const tickMs = 5;
const timeoutMs = 15_000;
const failuresKept = 20;

export interface Visit {
  /** When it was due, in milliseconds since the prober was started. */
  atMs: number;
  /** From when it was due until it was over. */
  tookMs: number;
  /** Why it was not answered well; null: it was. */
  problem: string | null;
  /** Which container answered, as it calls itself; null: it did not say. */
  by: string | null;
  /** Which version of the app answered, by the last part of its number; null: it did not say. */
  version: number | null;
}

// biome-ignore lint/style/useConsistentTypeDefinitions: it is JSON, and an interface has no index signature
export type VisitReport = {
  sent: number;
  failed: number;
  /** From the first visit of the longest run of failed ones to the next that was answered well; 0: none failed. */
  longestGapMs: number;
  /** The first of them, with the time since the start of the report. */
  failures: { atMs: number; tookMs: number; what: string }[];
  latencyMs: { p50: number; p99: number; max: number };
  /** How many were answered by each container. */
  by: Record<string, number>;
};

/** Somebody who visits a site again and again, at a fixed rate, whether or not earlier visits were answered. */
export interface Prober extends AsyncDisposable {
  /** Milliseconds since it was started. */
  now(): number;
  /** What became of the visits since then; those that are under way are not counted. */
  report(sinceMs?: number): VisitReport;
  /** Which containers answered in the last `windowMs`. */
  answering(windowMs: number): Set<string>;
  /** Which version answered which visit: it was due at `startMs`, and begun no sooner. */
  answers(): { version: number; startMs: number; endMs: number }[];
  /** Stops, waits for the visits that are under way, and reports on all. */
  stop(): Promise<VisitReport>;
}

/** @param ratePerSecond 10 to watch a site closely, hundreds to load it */
export function startProber(url: string, ratePerSecond: number): Prober {
  const agent = loopbackAgent({ connections: 128, pipelining: 1, keepAliveTimeout: 60_000 });
  const { origin, pathname } = new URL(url);
  const startedAt = performance.now();
  const visits: Visit[] = [];
  const pending = new Set<Promise<void>>();
  const end = new AbortController();

  const visit = async (atMs: number): Promise<void> => {
    let problem: string | null = null;
    let by: string | null = null;
    let version: number | null = null;
    try {
      const reply = await agent.request({
        origin,
        path: pathname,
        method: "GET",
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      const text = await reply.body.text();
      if (reply.statusCode === 200) {
        by = /"hostname":"([^"]+)"/.exec(text)?.[1] ?? null;
        const number = /"version":"[0-9.]*?([0-9]+)"/.exec(text)?.[1];
        version = number === undefined ? null : Number(number);
      } else problem = `status ${reply.statusCode}`;
    } catch (error) {
      problem = error instanceof Error ? ("code" in error ? String(error.code) : error.message) : String(error);
    }
    visits.push({ atMs, tookMs: performance.now() - startedAt - atMs, problem, by, version });
  };
  const going = (async () => {
    for (let sent = 0; !end.signal.aborted; ) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * ratePerSecond) + 1;
      for (; sent < due; sent += 1) {
        const one = visit((sent / ratePerSecond) * 1000);
        pending.add(one);
        void one.finally(() => pending.delete(one));
      }
      await delay(tickMs, undefined, { signal: end.signal }).catch(() => {});
    }
    await Promise.all(pending);
    await agent.close();
  })();
  const now = () => performance.now() - startedAt;

  return {
    now,
    report: (sinceMs = 0) => reportOn(visits, sinceMs),
    answering: (windowMs) => {
      const from = now() - windowMs;
      return new Set(visits.flatMap(({ atMs, tookMs, by }) => (by !== null && atMs + tookMs >= from ? [by] : [])));
    },
    answers: () =>
      visits.flatMap(({ atMs, tookMs, version }) =>
        version === null ? [] : [{ version, startMs: atMs, endMs: atMs + tookMs }],
      ),
    async stop() {
      end.abort();
      await going;
      return reportOn(visits, 0);
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await going;
    },
  };
}

function reportOn(all: readonly Visit[], sinceMs: number): VisitReport {
  const visits = all.filter(({ atMs }) => atMs >= sinceMs).sort((a, b) => a.atMs - b.atMs);
  const failed = visits.filter(({ problem }) => problem !== null);
  const took = visits.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const at = (share: number) => Math.round(took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0);
  const by: Record<string, number> = {};
  for (const visit of visits) if (visit.by !== null) by[visit.by] = (by[visit.by] ?? 0) + 1;
  return {
    sent: visits.length,
    failed: failed.length,
    longestGapMs: longestGapMs(visits),
    failures: failed.slice(0, failuresKept).map(({ atMs, tookMs, problem }) => ({
      atMs: Math.round(atMs - sinceMs),
      tookMs: Math.round(tookMs),
      what: problem ?? "",
    })),
    latencyMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
    by,
  };
}

function longestGapMs(visits: readonly Visit[]): number {
  let longest = 0;
  let since: number | null = null;
  for (const { atMs, problem } of visits) {
    if (problem !== null) since ??= atMs;
    else if (since !== null) {
      longest = Math.max(longest, atMs - since);
      since = null;
    }
  }
  const last = visits.at(-1);
  return Math.round(Math.max(longest, since === null || last === undefined ? 0 : last.atMs - since));
}
