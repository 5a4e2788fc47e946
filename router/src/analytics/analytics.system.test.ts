import { randomBytes } from "node:crypto";
import { mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { type Analytics, type AnalyticsRow, SaltsSchema } from "@svc/proto/edge";
import { countUniques, decodeUniques, noUniques, unite } from "@svc/proto/uniques";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writeCountries } from "../testing/country-file.ts";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask } from "../testing/http.ts";
import { aProxy } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";

const host = "shop.svc.localhost";
const agents = {
  chrome:
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  firefox: "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
  phone:
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
  robot: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
};

let app: Upstream;
let edge: TestEdge;
beforeEach(async () => {
  app = await startUpstream("blue");
});
afterEach(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

async function start(env: Record<string, string> = {}): Promise<void> {
  edge = await startTestEdge({ env });
  await edge.serve({ upserts: [aProxy(host, app.address)] });
  await tellSalts();
}

const salts = create(SaltsSchema, {
  salts: [-1, 0, 1].map((days) => ({
    day: new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10),
    salt: Uint8Array.from(randomBytes(32)),
  })),
});
const tellSalts = async () => edge.edge().analytics?.learn(salts);

/** Keeps what it gets as control does: of each series the newest. */
function aControl() {
  const rows = new Map<string, AnalyticsRow>();
  const received: Analytics[] = [];
  return {
    received,
    rows,
    connect({ deaf = false }: { deaf?: boolean } = {}) {
      const { analytics } = edge.edge();
      analytics?.open((message) => {
        received.push(message);
        for (const row of message.rows) if (row.seq > (rows.get(row.series)?.seq ?? 0n)) rows.set(row.series, row);
        const { number } = message;
        if (!deaf) queueMicrotask(() => analytics.acknowledged({ number, $typeName: "svc.edge.v1.AnalyticsAck" }));
      });
    },
    requests: () => [...rows.values()].reduce((sum, row) => sum + Number(row.status2xx + row.status4xx), 0),
    counts(list: "paths" | "referrers" | "countries" | "devices" | "browsers" | "operatingSystems") {
      const counts: Record<string, number> = {};
      for (const row of rows.values()) {
        for (const { value, count } of row[list]) counts[value] = (counts[value] ?? 0) + Number(count);
      }
      return counts;
    },
    visitors() {
      const all = noUniques();
      for (const row of rows.values()) unite(all, decodeUniques(row.visitors) ?? noUniques());
      return countUniques(all);
    },
  };
}

const visit = (path: string, userAgent: string, headers: Record<string, string> = {}) =>
  ask(edge.http, host, path, { headers: { "user-agent": userAgent, ...headers } });

test("visits through Caddy come out as pages, referrers, browsers, countries and visitors", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "svc-countries-"));
  const countries = join(dir.path, "countries.mmdb");
  await writeCountries(countries, { "01111111": "IS" });
  await start({ SVC_GEO_DB: countries });
  const control = aControl();
  control.connect();
  await visit("/?token=secret", agents.chrome, { referer: "https://search.test/results?q=private" });
  await visit("/caf%C3%A9", agents.chrome, { referer: `http://${host}/?token=secret`, "sec-fetch-dest": "document" });
  await visit("/", agents.firefox, { referer: "https://search.test/" });
  await visit("/", agents.phone);
  await visit("/", agents.robot);
  await visit("/style.css", agents.chrome);
  await visit("/api/me", agents.chrome, { "sec-fetch-dest": "empty" });
  await ask(edge.http, host, "/form", { method: "POST", body: "hello" });
  await waitFor(() => control.requests() === 8);
  expect(control.counts("paths")).toEqual({ "/": 4, "/café": 1 });
  expect(control.counts("referrers")).toEqual({ "search.test": 2 });
  expect(control.counts("countries")).toEqual({ IS: 5 });
  expect(control.counts("devices")).toEqual({ desktop: 3, mobile: 1, bot: 1 });
  expect(control.counts("browsers")).toEqual({ Chrome: 2, Firefox: 1, Safari: 1, "(bot)": 1 });
  expect(control.counts("operatingSystems")).toEqual({ Windows: 2, Linux: 1, iOS: 1, "(bot)": 1 });
  expect(control.visitors()).toBe(3);
});

/** All that Caddy says of requests, whichever way it has. */
async function readLog(): Promise<string> {
  const { trafficDir } = edge.config;
  const files = (await readdir(trafficDir)).map((name) => readFile(join(trafficDir, name), "utf8"));
  return (await Promise.all(files)).join();
}

test("no address, browser, query or page of a referrer is on the edge's disk, nor sent", async () => {
  await start();
  const control = aControl();
  control.connect();
  await visit("/page?token=query-secret", `${agents.chrome} Rarity/77`, { referer: "https://ref.test/private-page?x" });
  await waitFor(() => control.requests() === 1);
  const sent = JSON.stringify([...control.rows.values()], (_, value) =>
    typeof value === "bigint" ? `${value}` : value,
  );
  // Nothing is written any more while it is looked at.
  await edge.stopRouter();
  const files = (await readdir(edge.config.dir, { recursive: true, withFileTypes: true })).filter((each) =>
    each.isFile(),
  );
  const kept = await Promise.all(files.map((each) => readFile(join(each.parentPath, each.name), "latin1")));
  // In memory, until it is counted: neither the query nor the page that led here.
  const logged = await readLog();
  for (const secret of ["query-secret", "private-page"]) expect([sent, ...kept, logged].join()).not.toContain(secret);
  for (const personal of ["127.0.0.1", "Rarity"])
    expect([sent, kept.filter((text) => text.includes("paths"))].join()).not.toContain(personal);
  expect(logged).toContain("/page");
});

test("what comes odd, long or broken is counted, and nothing else suffers", async () => {
  await start();
  const control = aControl();
  control.connect();
  await visit("/", "A".repeat(8192), { referer: `https://${"r".repeat(3000)}.test/` });
  await visit(`/${"x".repeat(5000)}`, agents.firefox);
  await visit("/half%C3%28", agents.firefox, { referer: "android-app://com.example/" });
  await visit("/%00%7F%0A", agents.firefox, { "sec-fetch-dest": "D".repeat(500), dnt: "perhaps" });
  await visit("/fine", agents.firefox);
  await waitFor(() => control.requests() === 5);
  const paths = Object.keys(control.counts("paths"));
  expect(paths).toEqual(expect.arrayContaining(["/", "/half%C3%28", "/%00%7F%0A", "/fine"]));
  expect(Math.max(...paths.map((path) => Buffer.byteLength(path)))).toBeLessThanOrEqual(200);
  expect(control.counts("referrers")).toEqual({});
});

test("nothing is lost and nothing counts twice while control is away, deaf, or the router is killed", async () => {
  await start();
  const control = aControl();
  await Promise.all(Array.from({ length: 10 }, () => visit("/", agents.chrome)));
  control.connect({ deaf: true });
  await waitFor(() => control.received.length > 0);
  edge.edge().analytics?.closed();
  await visit("/", agents.firefox);
  await edge.stopRouter();
  await Promise.all(Array.from({ length: 7 }, () => visit("/", agents.phone)));
  await edge.startRouter();
  control.connect();
  await visit("/last", agents.chrome);
  await waitFor(() => control.requests() >= 19);
  expect(control.counts("paths")).toEqual({ "/": 18, "/last": 1 });
  expect(control.visitors()).toBe(3);
});

test("who asks not to be tracked is a request and no visitor, where that is honoured", async () => {
  await start({ SVC_ANALYTICS: "opt-out" });
  const control = aControl();
  control.connect();
  await visit("/", agents.chrome, { "sec-gpc": "1" });
  await visit("/", agents.firefox, { dnt: "1" });
  await visit("/", agents.phone);
  await waitFor(() => control.requests() === 3);
  expect([control.visitors(), control.counts("paths")]).toEqual([1, { "/": 1 }]);
});

test("switched off, the log says nothing of visitors and nothing is counted", async () => {
  await start({ SVC_ANALYTICS: "off" });
  expect(edge.edge().analytics).toBeNull();
  let requests = 0;
  edge.edge().traffic.open((batch) => {
    for (const count of batch.counts) requests += Number(count.requests);
  });
  await visit("/private", agents.chrome, { referer: "https://ref.test/" });
  await waitFor(() => requests === 1);
  const logged = await readLog();
  for (const said of ["private", "Chrome", "ref.test", "remote_ip"]) expect(logged).not.toContain(said);
});

test("salts of days that are over are destroyed, also where nobody comes", async () => {
  await start();
  const path = join(edge.config.dir, "analytics", "salts.json");
  const over = { day: "2020-02-02", salt: Uint8Array.from(randomBytes(32)) };
  await edge.edge().analytics?.learn(create(SaltsSchema, { salts: [...salts.salts, over] }));
  const kept = async () => Object.keys(JSON.parse(await readFile(path, "utf8")).salts);
  await waitFor(async () => !(await kept()).includes(over.day));
  expect(await kept()).toContain(salts.salts[1]?.day);
});

test("switched off, an edge forgets what it counted and what it told visitors apart with", async () => {
  await start();
  await visit("/", agents.chrome);
  const { dir } = edge.config;
  expect(await readdir(join(dir, "analytics"))).toContain("salts.json");
  await edge.stopRouter();
  edge.config.analytics = "off";
  await edge.startRouter();
  expect(await readdir(dir)).not.toContain("analytics");
});

test("what control takes back is not counted", async () => {
  await start();
  const { analytics } = edge.edge();
  const path = join(edge.config.dir, "analytics", "salts.json");
  const { salts: days } = JSON.parse(await readFile(path, "utf8"));
  expect(Object.keys(days)).toContain(salts.salts[1]?.day);
  await analytics?.learn(create(SaltsSchema, { salts: [] }));
  expect(await readFile(path, "utf8")).not.toContain(Buffer.from(salts.salts[1]?.salt ?? []).toString("hex"));
  const control = aControl();
  control.connect();
  let requests = 0;
  edge.edge().traffic.open((batch) => {
    for (const count of batch.counts) requests += Number(count.requests);
  });
  await visit("/", agents.chrome);
  await waitFor(() => requests === 1);
  await tellSalts();
  await visit("/", agents.chrome);
  await waitFor(() => control.requests() === 1);
  expect(control.counts("paths")).toEqual({ "/": 1 });
});
