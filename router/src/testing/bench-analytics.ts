/**
 * Measures what counting a line of the access log costs the router, with and without analytics, and how near the lists and
 * visitors of a million lines come to what was put in.
 *
 * Run: node router/src/testing/bench-analytics.ts [lines]
 */

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { type AnalyticsRow, SaltsSchema } from "@svc/proto/edge";
import { countUniques, decodeUniques, noUniques, unite } from "@svc/proto/uniques";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { pino } from "pino";
import { openAnalytics } from "../analytics/analytics.ts";
import { addVisit, type Counts } from "../traffic/counts.ts";
import { hostOf, parseLine, saidSeparator } from "../traffic/line.ts";

const lines = Number(process.argv[2] ?? 1_000_000);
const visitors = 50_000;
const sites = 100;
const pages = 40;
/** Of lines: paths that nobody else asks for. */
const inventedShare = 0.1;
const robotShare = 0.2;
const chunk = 10_000;
const first = Math.floor(Date.UTC(2026, 1, 28, 20) / 1000);
const secondsInAll = 8 * 3600;

const browsers = Array.from(
  { length: 500 },
  (_, n) =>
    `Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${100 + (n % 50)}.0.${n}.0 Safari/537.36`,
);
const robot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/** Processor time of this process: holds on a busy machine. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The truth of the first site. */
const truth = { paths: new Map<string, number>(), robots: 0, views: 0, visitors: new Map<string, Set<number>>() };

function aLine(n: number): string {
  const site = n % sites;
  const isRobot = systemRandom.next() < robotShare;
  const visitor = Math.floor(systemRandom.next() * visitors);
  const isInvented = systemRandom.next() < inventedShare;
  // The first pages are the frequent ones.
  const path = isInvented ? `/invented/${n}` : `/page/${Math.floor(systemRandom.next() ** 2 * pages)}`;
  const seconds = first + Math.floor((n / lines) * secondsInAll);
  if (site === 0) {
    truth.views += 1;
    if (isRobot) truth.robots += 1;
    if (!isInvented) truth.paths.set(path, (truth.paths.get(path) ?? 0) + 1);
    const day = new Date(seconds * 1000).toISOString().slice(0, 10);
    if (!isRobot) truth.visitors.set(day, (truth.visitors.get(day) ?? new Set()).add(visitor));
  }
  const agent = isRobot ? robot : (browsers[visitor % browsers.length] ?? "");
  const said = ["", "document", "", "", path, agent, n % 3 === 0 ? "https://search.test" : ""].join(saidSeparator);
  const address = `10.${visitor >> 16}.${(visitor >> 8) & 255}.${visitor & 255}`;
  const request = { remote_ip: address, method: "GET", host: `site${site}.test` };
  return JSON.stringify({ ts: seconds, request, user_id: said, duration: 0.01, size: 512, status: 200 });
}

const dir = await mkdtemp(join(tmpdir(), "svc-bench-analytics-"));
try {
  const analytics = await openAnalytics({
    ...{ dir, position: [], everyMs: 0, optOut: false, geoDatabase: null },
    ...{
      clock: { ...systemClock, now: () => new Date(first * 1000) },
      random: systemRandom,
      log: pino({ level: "warn" }),
    },
  });
  const days = ["2026-02-28", "2026-03-01"].map((day) => ({ day, salt: Uint8Array.from(randomBytes(32)) }));
  await analytics.learn(create(SaltsSchema, { salts: days }));
  const rows = new Map<string, AnalyticsRow>();
  analytics.open((message) => {
    for (const row of message.rows) rows.set(row.series, row);
    queueMicrotask(() => analytics.acknowledged({ number: message.number, $typeName: "svc.edge.v1.AnalyticsAck" }));
  });
  let [countedMs, analysedMs, keptMs] = [0, 0, 0];
  for (let from = 0; from < lines; from += chunk) {
    const texts = Array.from({ length: Math.min(chunk, lines - from) }, (_, n) => aLine(from + n));
    const counts: Counts = new Map();
    const began = cpuMs();
    const visits = texts.flatMap((text) => parseLine(text) ?? []);
    for (const visit of visits) {
      addVisit(counts, { projectId: hostOf(visit.host), channel: "production", unmetered: false }, visit);
    }
    const counted = cpuMs();
    analytics.begin(1);
    for (const visit of visits) {
      analytics.add({ projectId: visit.host, channel: "production", isOwnHost: () => false }, visit);
    }
    const analysed = cpuMs();
    await analytics.keep([]);
    await analytics.commit([]);
    countedMs += counted - began;
    analysedMs += analysed - counted;
    keptMs += cpuMs() - analysed;
    analytics.ship();
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (let turn = 0; turn < 100; turn += 1) {
    analytics.ship();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await analytics[Symbol.asyncDispose]();

  const show = (name: string, value: string) => console.log(`${name.padEnd(52)} ${value}`);
  const perLine = (ms: number) => `${((ms * 1000) / lines).toFixed(2)} µs`;
  show(`${lines} lines, each read and counted`, perLine(countedMs));
  show("and for analytics", perLine(analysedMs));
  show(`and put on disk, once per ${chunk} lines`, perLine(keptMs));
  show("memory of the process", `${(process.memoryUsage().rss / 1024 ** 2).toFixed(0)} MiB`);

  const own = [...rows.values()].filter(({ projectId }) => projectId === "site0.test");
  const total = (list: "paths" | "devices") => {
    const sums = new Map<string, number>();
    for (const row of own)
      for (const { value, count } of row[list]) sums.set(value, (sums.get(value) ?? 0) + Number(count));
    return sums;
  };
  const paths = total("paths");
  const frequent = [...truth.paths].sort(([, a], [, b]) => b - a).slice(0, 25);
  const worst = Math.max(...frequent.map(([path, count]) => Math.abs((paths.get(path) ?? 0) / count - 1)));
  show("of the 25 most frequent paths, the worst is wrong by", `${(worst * 100).toFixed(2)} %`);
  const listed = [...paths.values()].reduce((sum, count) => sum + count, 0);
  show("page views", `${listed} of ${truth.views}`);
  show("robots", `${total("devices").get("bot") ?? 0} of ${truth.robots}`);
  for (const [day, seen] of truth.visitors) {
    const all = noUniques();
    for (const row of own) {
      if (new Date(Number(row.hour) * 3_600_000).toISOString().slice(0, 10) !== day) continue;
      unite(all, decodeUniques(row.visitors) ?? noUniques());
    }
    const found = countUniques(all);
    show(`visitors of ${day}`, `${found} of ${seen.size} (${((found / seen.size - 1) * 100).toFixed(1)} %)`);
  }
} finally {
  await rm(dir, { recursive: true, force: true });
}
