import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConfig } from "../../../config.ts";
import { tokenKeySettings } from "../../../fleet/registry-tokens/testing.ts";
import { createLog } from "../../../log.ts";
import { type ControlServer, start } from "../../../start.ts";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { type EtcdServer, startEtcd } from "../../../stores/etcd/testing.ts";

let database: TestDatabase;
let etcd: EtcdServer;
let control: ControlServer;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
  const config = readConfig(new Date(), {
    ...tokenKeySettings,
    SVC_DATABASE_URL: database.url,
    SVC_ETCD_ENDPOINTS: etcd.endpoint,
    SVC_API_LISTEN: "127.0.0.1:0",
    SVC_LINK_LISTEN: "127.0.0.1:0",
    SVC_ENROLL_LISTEN: "127.0.0.1:0",
    SVC_METRICS_LISTEN: "127.0.0.1:0",
    SVC_MASTER_KEY: randomBytes(32).toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  });
  control = await start(config, { log: createLog("silent") });
});
afterAll(async () => {
  await control[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const ask = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${control.metricsPort}${path}`, init);
const read = async () => (await ask("/metrics")).text();
/** The value of one series, as `name{label="value"}`; null when there is none. */
const seriesOf = (text: string, series: string): number | null => {
  const line = text.split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
};

test("what a replica does can be read from its private address", async () => {
  await fetch(`http://127.0.0.1:${control.apiPort}/api/v1/projects/not-a-project-of-anybody?secret=1`);
  await expect.poll(async () => seriesOf(await read(), "svc_control_leader")).toBe(1);
  const firstRound = 'svc_control_loop_rounds_total{loop="scheduler",outcome="ok"}';
  await expect.poll(async () => seriesOf(await read(), firstRound)).not.toBeNull();
  const text = await read();
  expect(
    seriesOf(text, 'svc_control_http_requests_total{method="GET",route="/api/v1/projects/:id",status="4xx"}'),
  ).toBe(1);
  expect(text).not.toMatch(/not-a-project-of-anybody|secret/);
  expect(seriesOf(text, 'svc_control_etcd_request_seconds_count{call="transaction"}')).toBeGreaterThan(0);
  expect(seriesOf(text, "svc_control_tasks_waiting")).toBe(0);
  expect(seriesOf(text, "svc_control_jobs_clock_lag_seconds")).toBe(0);
  expect(text).toContain("nodejs_eventloop_lag_seconds");
  // What was read a moment ago is from one moment, in which all of them may have been in use.
  const idle = 'svc_control_postgres_connections{state="idle"}';
  await expect.poll(async () => seriesOf(await read(), idle)).toBeGreaterThan(0);
});

test("work that waits, work that was given up and a certificate that ends are seen", async () => {
  const { db } = database;
  await db
    .insertInto("work_item")
    .values({ kind: "nobody-does-this", key: "k", payload: "{}", run_at: new Date(Date.now() - 600_000) })
    .execute();
  await db
    .insertInto("node")
    .values({ role: "node", name: "n1", certificate_expires_at: new Date(Date.now() + 5.5 * 86_400_000) })
    .execute();
  await expect
    .poll(async () => seriesOf(await read(), 'svc_control_work_oldest_seconds{kind="nobody-does-this"}'), {
      timeout: 10_000,
    })
    .toBeGreaterThan(500);
  const text = await read();
  expect(seriesOf(text, 'svc_control_work_items{kind="nobody-does-this",state="queued"}')).toBe(1);
  expect(seriesOf(text, 'svc_control_certificate_days_left{role="node"}')).toBeCloseTo(5.5, 1);
  expect(seriesOf(text, 'svc_control_nodes{role="node",status="unreachable"}')).toBe(1);
});

test("an edge that no visitor is to reach is not behind", async () => {
  const seen = { role: "edge", last_seen_at: new Date() } as const;
  await database.db
    .insertInto("node")
    .values([
      { ...seen, name: "e1" },
      { ...seen, name: "e2", lifecycle: "fenced", schedulable: false },
      { ...seen, name: "e3", lifecycle: "removed", schedulable: false },
      { ...seen, name: "e4", schedulable: false },
      { role: "edge", name: "e5" },
    ])
    .execute();
  await expect
    .poll(async () => seriesOf(await read(), 'svc_control_nodes{role="edge",status="unreachable"}'), {
      timeout: 10_000,
    })
    .toBe(3);
  expect(seriesOf(await read(), "svc_control_edges_behind")).toBe(1);
});

test("only three paths answer, only to reading, and the API's port has none of them", async () => {
  expect((await ask("/healthz")).status).toBe(200);
  expect((await ask("/readyz")).status).toBe(200);
  expect((await ask("/")).status).toBe(404);
  const head = await ask("/metrics", { method: "HEAD" });
  expect([head.status, await head.text(), head.headers.get("content-type")]).toEqual([
    200,
    "",
    "text/plain; version=0.0.4; charset=utf-8",
  ]);
  const posted = await ask("/metrics", { method: "POST", body: "x".repeat(100_000) });
  expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  expect((await fetch(`http://127.0.0.1:${control.apiPort}/metrics`)).status).toBe(404);
});

test("a client that says nothing is not waited for", async () => {
  const socket = connect(control.metricsPort ?? 0, "127.0.0.1");
  const closed = new Promise<number>((resolve) => {
    const openedAtMs = performance.now();
    socket.resume().on("close", () => resolve(performance.now() - openedAtMs));
  });
  expect(await closed).toBeLessThan(12_000);
});

test("without etcd it lives, is not ready, and says what is missing; its metrics are there", async () => {
  etcd.freeze();
  try {
    await expect.poll(async () => (await ask("/readyz")).status).toBe(503);
    expect(await (await ask("/readyz")).text()).toMatch(/no answer of etcd/);
    expect((await ask("/healthz")).status).toBe(200);
    await expect
      .poll(async () => seriesOf(await read(), "svc_control_etcd_watch_silence_seconds"), { timeout: 20_000 })
      .toBeGreaterThan(5);
  } finally {
    etcd.thaw();
  }
  await expect.poll(async () => (await ask("/readyz")).status).toBe(200);
}, 90_000);
