import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import type { TrafficBatch } from "@svc/proto/edge";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask, askTls } from "../testing/http.ts";
import { aPage, aProxy, aRedirect } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";

const host = "shop.svc.localhost";
let edge: TestEdge;
let app: Upstream;
let control: ReturnType<typeof aControl>;

beforeEach(async () => {
  edge = await startTestEdge();
  app = await startUpstream("blue");
  control = aControl();
  await edge.serve({ upserts: [aProxy(host, app.address)] });
});

afterEach(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

/** Counts as control does: each number once, whatever comes how often. */
function aControl() {
  const totals = { requests: 0, bytesIn: 0, bytesOut: 0, status2xx: 0, status3xx: 0, status4xx: 0, status5xx: 0 };
  let series = "";
  let number = 0n;
  const received: TrafficBatch[] = [];
  const projects = new Set<string>();
  let unmetered = 0;
  return {
    totals,
    received,
    projects,
    /** Requests that are of no account for quotas. */
    unmetered: () => unmetered,
    /** A session in which control keeps what it gets, and says so unless `deaf`. */
    connect({ deaf = false }: { deaf?: boolean } = {}) {
      const { traffic } = edge.edge();
      traffic.open((batch) => {
        received.push(batch);
        if (batch.series !== series || batch.number > number) {
          ({ series, number } = batch);
          for (const count of batch.counts) {
            projects.add(`${count.projectId} ${count.channel}`);
            if (count.unmetered) unmetered += Number(count.requests);
            for (const key of Object.keys(totals) as (keyof typeof totals)[]) totals[key] += Number(count[key]);
          }
        }
        if (!deaf) queueMicrotask(() => traffic.acknowledged({ ...batch, $typeName: "svc.edge.v1.TrafficAck" }));
      });
    },
  };
}

const times = async (count: number, act: () => Promise<unknown>) => {
  for (let n = 0; n < count; n += 1) await act();
};
const logFiles = () => readdir(edge.config.trafficDir);

test("a request that came by the connection of another host is sent away uncounted", async () => {
  const other = "other.svc.localhost";
  await edge.serve({ upserts: [aProxy(other, app.address)] });
  control.connect();
  expect((await askTls(edge.https, other, "/", { servername: host })).status).toBe(421);
  await askTls(edge.https, host);
  await ask(edge.http, other);
  await waitFor(() => control.totals.requests >= 2);
  expect(control.totals).toMatchObject({ requests: 2, status2xx: 2, status4xx: 0 });
});

test("requests of a project's hosts count with their status and bytes, whatever they are answered", async () => {
  const hosts = ["stopped", "old"].map((name) => `${name}.svc.localhost`);
  await edge.serve({ upserts: [aPage(hosts[0] ?? "", "STOPPED"), aRedirect(hosts[1] ?? "", host)] });
  control.connect();
  await ask(edge.http, host, "/", { method: "POST", body: "123456" });
  await ask(edge.http, `${host}:8080`, "/");
  await ask(edge.http, hosts[0] ?? "");
  await ask(edge.http, hosts[1] ?? "");
  // Redirected to the right spelling of a host that is the project's.
  await ask(edge.http, host.toUpperCase());
  await ask(edge.http, "nobody.svc.localhost");
  await ask(edge.http, "127.0.0.1");
  await waitFor(() => control.totals.requests >= 5);
  expect(control.totals).toMatchObject({
    requests: 5,
    bytesIn: 6,
    status2xx: 2,
    status3xx: 2,
    status4xx: 0,
    status5xx: 1,
  });
  expect(control.totals.bytesOut).toBeGreaterThan("blue".length * 2);
  expect([...control.projects]).toEqual(["p1 production"]);
});

test("what is answered with the page of a suspended site is told apart", async () => {
  const suspended = "closed.svc.localhost";
  await edge.serve({ upserts: [aPage(suspended, "SUSPENDED")] });
  control.connect();
  await times(2, () => ask(edge.http, host));
  await times(3, () => ask(edge.http, suspended));
  await waitFor(() => control.totals.requests >= 5);
  expect([control.totals.requests, control.unmetered()]).toEqual([5, 3]);
});

test("a visitor who announces more than comes is not believed", async () => {
  control.connect();
  const [hostname, port] = edge.http.split(":");
  const head = `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 9999999999999\r\n\r\n`;
  const sockets = Array.from({ length: 10 }, () => connect(Number(port), hostname).on("error", () => {}));
  for (const socket of sockets) socket.write(`${head}hello`);
  await waitFor(() => app.requests() >= sockets.length);
  for (const socket of sockets) socket.destroy();
  await waitFor(() => control.totals.requests >= sockets.length);
  expect(control.totals.bytesIn).toBeLessThanOrEqual(sockets.length * "hello".length);
});

test("nothing is lost while control is away, and nothing counts twice when an answer is lost", async () => {
  await times(20, () => ask(edge.http, host));
  control.connect({ deaf: true });
  await waitFor(() => control.totals.requests > 0);
  edge.edge().traffic.closed();
  await times(10, () => ask(edge.http, host));
  control.connect();
  await waitFor(() => control.totals.requests >= 30);
  await times(5, () => ask(edge.http, host));
  await waitFor(() => control.totals.requests >= 35);
  expect(control.totals.requests).toBe(35);
  const [first, again] = control.received;
  expect(again).toEqual(first);
});

test("what is asked while the router is away is counted when it is back", async () => {
  await times(5, () => ask(edge.http, host));
  await edge.stopRouter();
  await times(7, () => ask(edge.http, host));
  await edge.startRouter();
  control.connect();
  await waitFor(() => control.totals.requests >= 12);
  await edge.stopRouter();
  await edge.startRouter();
  control.connect();
  await ask(edge.http, host);
  await waitFor(() => control.totals.requests >= 13);
  expect(control.totals.requests).toBe(13);
});

test("Caddy starts without the router, and logs on", async () => {
  await edge.stopRouter();
  await edge.caddy.kill();
  await edge.caddy.restart();
  await waitFor(async () => (await ask(edge.http, host)).status === 200);
  await edge.startRouter();
  control.connect();
  await waitFor(() => control.totals.requests >= 1);
});

test("a file that is full is read to its end and removed", async () => {
  control.connect();
  await ask(edge.http, host);
  await waitFor(() => control.totals.requests === 1);
  const line = (ts: number) =>
    `${JSON.stringify({ ts, request: { host }, user_id: "", duration: 0.1, size: 10, status: 200 })}\n`;
  const full = join(edge.config.trafficDir, "access-2030-01-01T00-00-00.000.log");
  await writeFile(`${full}.new`, line(1_800_000_000.25).repeat(20_000) + line(1_800_000_000).slice(0, 20));
  await rename(`${full}.new`, full);
  await waitFor(() => control.totals.requests >= 20_001);
  await waitFor(async () => (await logFiles()).length === 1);
  await ask(edge.http, host);
  await waitFor(() => control.totals.requests >= 20_002);
  expect(control.totals.requests).toBe(20_002);
});

test("damaged lines cost themselves only", async () => {
  control.connect();
  const line = `${JSON.stringify({ ts: 1_800_000_000.25, request: { host }, user_id: "", size: 10, status: 200 })}\n`;
  const full = join(edge.config.trafficDir, "access-2030-01-01T00-00-00.000.log");
  await writeFile(`${full}.new`, `${line}{"ts":12,"requ\n\u0000\n[]\n${line}`);
  await rename(`${full}.new`, full);
  await waitFor(() => control.totals.requests === 2);
  await waitFor(async () => (await edge.edge().traffic.unreadBytes()) === 0);
  await ask(edge.http, host);
  await waitFor(() => control.totals.requests === 3);
});

test("before there is a table nothing is thrown away", async () => {
  await using other = await startTestEdge();
  await mkdir(other.config.trafficDir, { recursive: true });
  await ask(other.http, host);
  expect((await ask(other.http, host)).status).toBe(503);
  let requests = 0;
  other.edge().traffic.open((batch) => {
    for (const count of batch.counts) requests += Number(count.requests);
  });
  await other.serve({ upserts: [aProxy(host, app.address)] });
  await waitFor(() => requests === 2);
});

test("a visitor who hangs up counts, and the router survives", async () => {
  control.connect();
  const [hostname, port] = edge.http.split(":");
  const socket = connect(Number(port), hostname);
  socket.write(`GET /slow HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  await waitFor(() => app.last()?.url === "/slow");
  socket.destroy();
  await waitFor(() => control.totals.requests === 1);
});
