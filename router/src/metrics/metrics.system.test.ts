import { once } from "node:events";
import { connect } from "node:tls";
import { create } from "@bufbuild/protobuf";
import { CertificatesSchema } from "@svc/proto/edge";
import { systemClock } from "@svc/runtime/system";
import { createPulse } from "@svc/telemetry";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aCertificate } from "../testing/certificate.ts";
import { quiet, startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask } from "../testing/http.ts";
import { aDelta, aProxy, aStatic } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { createMetrics } from "./metrics.ts";
import { serveMetrics, watchGauges } from "./serve.ts";

const host = "shop.svc.localhost";
const metrics = createMetrics();
let edge: TestEdge;
let app: Upstream;
beforeAll(async () => {
  edge = await startTestEdge({ metrics });
  app = await startUpstream("blue");
  watchGauges(metrics, systemClock, edge.edge());
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

const seriesOf = async (series: string): Promise<number | null> => {
  const line = (await metrics.read()).split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
};

test("what visitors get, what is served and what is behind is counted", async () => {
  await edge.serve({ upserts: [aProxy(host, app.address)] });
  expect(await seriesOf("svc_router_table_generation")).toBe(1);
  expect(await seriesOf("svc_router_hosts")).toBe(1);
  expect(await seriesOf("svc_router_table_apply_seconds_count")).toBeGreaterThan(0);
  await expect
    .poll(
      async () => {
        await ask(edge.http, host, "/");
        return seriesOf('svc_router_requests_total{status="2xx"}');
      },
      { timeout: 10_000 },
    )
    .toBeGreaterThan(0);
  expect(await seriesOf("svc_router_request_seconds_count")).toBe(
    await seriesOf('svc_router_requests_total{status="2xx"}'),
  );
  expect(await seriesOf('svc_router_request_seconds_bucket{le="+Inf"}')).toBeGreaterThan(0);
  expect(await seriesOf("svc_router_caddy_up")).toBe(1);
  for (const name of ["open_files", "memory_bytes", "cpu_seconds", "goroutines"])
    expect(await seriesOf(`svc_router_caddy_${name}`), name).toBeGreaterThan(0);
  expect(await metrics.read()).not.toContain(host);
});

test("how long certificates are still good is told", async () => {
  const { certificates } = edge.edge();
  await certificates.learn(create(CertificatesSchema, { first: true, upserts: [aCertificate("shop.example", 20)] }));
  expect(await seriesOf('svc_router_certificates{left="30d"}')).toBe(1);
  await certificates.learn(create(CertificatesSchema, { first: true }));
  expect(await seriesOf('svc_router_certificates{left="30d"}')).toBe(0);
});

test("handshakes with certificates of control's are counted, and none of names that nobody has", async () => {
  const { certificates } = edge.edge();
  await certificates.learn(create(CertificatesSchema, { first: true, upserts: [aCertificate("shop.example", 20)] }));
  const dial = async (servername: string): Promise<void> => {
    const [hostname, port] = edge.https.split(":");
    const socket = connect({ host: hostname, port: Number(port), servername, rejectUnauthorized: false });
    await once(socket, "secureConnect");
    socket.destroy();
  };
  const before = await seriesOf("svc_router_requests_unattributed_total");
  for (let n = 0; n < 3; n += 1) {
    await dial("shop.example");
    await expect(dial(`nobody-${n}.example`)).rejects.toThrow();
  }
  await expect.poll(() => seriesOf("svc_router_tls_handshakes_total"), { timeout: 10_000 }).toBe(3);
  expect(await seriesOf("svc_router_requests_unattributed_total")).toBe(before);
  await certificates.learn(create(CertificatesSchema, { first: true }));
});

test("files that cannot be fetched are an error, and their host is behind", async () => {
  edge.edge().applier.submit(aDelta(1, 2n, { upserts: [aStatic("files.svc.localhost", `sha256:${"a".repeat(64)}`)] }));
  await expect.poll(() => seriesOf('svc_router_bundle_fetches_total{outcome="failed"}')).toBeGreaterThan(0);
  await expect.poll(() => seriesOf("svc_router_hosts_behind")).toBe(1);
});

test("a router that cannot reach Caddy says so, and that it lives", async () => {
  const state = { caddyConfigured: true };
  const pulse = createPulse(systemClock.steadyMs);
  await using listener = await serveMetrics(
    systemClock,
    { host: "127.0.0.1", port: 0 },
    { metrics, pulse, applier: edge.edge().applier, state, log: quiet },
  );
  const answer = async (path: string) => (await fetch(`http://127.0.0.1:${listener.port}${path}`)).status;
  expect(await answer("/readyz")).toBe(200);
  state.caddyConfigured = false;
  await expect.poll(() => answer("/readyz")).toBe(503);
  expect([await answer("/healthz"), await answer("/metrics")]).toEqual([200, 200]);
});
