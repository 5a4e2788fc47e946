/**
 * Whether visitors notice changes: 100,000 requests, over HTTP and TLS, and streams that stay open, while routes and
 * certificates change a thousand times. Then Caddy is killed, and what was counted is held against what was answered. Ends
 * with 1 where anything was lost.
 *
 * Run: node router/src/testing/bench-changes.ts; SVC_CADDY_BINARY names another Caddy than the system's.
 */

import { request } from "node:http";
import { create } from "@bufbuild/protobuf";
import { CertificatesSchema } from "@svc/proto/edge";
import { Pool } from "undici";
import { aCertificate } from "./certificate.ts";
import { startTestEdge, type TestEdge } from "./edge.ts";
import { aPage, aProxy } from "./routes.ts";
import { startUpstream } from "./upstream.ts";
import { waitFor } from "./wait-for.ts";

const requestsInAll = 100_000;
const changesInAll = 1000;
/** Hosts that are there throughout, besides the one whose routes change. */
const otherHosts = 2000;
const streamsOpen = 20;
const host = "shop.example";
/** Of each way to ask, with how many connections. */
const ways = { http: 24, tls: 8 };
/** After so many requests over TLS a visitor comes with a new connection. */
const perConnection = 50;

const show = (name: string, value: unknown) => console.log(`${name.padEnd(52)} ${value}`);

/** A stream of events, and how many parts have come. */
function openStream(edge: TestEdge) {
  const [hostname, port] = edge.http.split(":");
  const stream = { parts: 0, lost: false };
  const sent = request({ hostname, port, path: "/events", agent: false, headers: { host } }, (answer) => {
    answer.on("data", () => {
      stream.parts += 1;
    });
    answer.once("close", () => {
      stream.lost = true;
    });
    answer.on("error", () => {});
  });
  sent.on("error", () => {
    stream.lost = true;
  });
  sent.end();
  return stream;
}

await using edge = await startTestEdge({ env: { SVC_EDGE_TLS: "internal" } });
await using blue = await startUpstream("blue");
await using green = await startUpstream("green");
const { applier, certificates, traffic } = edge.edge();
const counted = { requests: 0 };
traffic.open((batch) => {
  for (const { requests } of batch.counts) counted.requests += Number(requests);
  queueMicrotask(() => traffic.acknowledged({ ...batch, $typeName: "svc.edge.v1.TrafficAck" }));
});
const others = Array.from({ length: otherHosts }, (_, n) => aPage(`site${n}.svc.localhost`, "STOPPED"));
await edge.serve({ upserts: [aProxy(host, blue.address), ...others] });
const shown = [aCertificate(host), aCertificate(host)];
let number = 0n;
const tell = async (message: object): Promise<void> => {
  number += 1n;
  const problem = await certificates.learn(create(CertificatesSchema, { number, ...message }));
  if (problem !== "") throw new Error(problem);
};
await tell({ first: true, upserts: shown.slice(0, 1) });

const streams = Array.from({ length: streamsOpen }, () => openStream(edge));
await waitFor(() => streams.every(({ parts }) => parts > 0));

let asked = 0;
let changesLeft = changesInAll;
const failures = new Map<string, number>();
const visitor = async (isTls: boolean): Promise<void> => {
  const origin = isTls ? `https://${edge.https}` : `http://${edge.http}`;
  const connect = isTls ? { connect: { servername: host, rejectUnauthorized: false } } : {};
  while (asked < requestsInAll || changesLeft > 0) {
    const pool = new Pool(origin, { connections: 1, ...connect });
    for (let n = 0; n < (isTls ? perConnection : 1000) && (asked < requestsInAll || changesLeft > 0); n += 1) {
      asked += 1;
      try {
        const { statusCode, body } = await pool.request({ path: "/", method: "GET", headers: { host } });
        const said = `${statusCode} ${await body.text()}`;
        if (!/^200 (blue|green)$/.test(said)) failures.set(said, (failures.get(said) ?? 0) + 1);
      } catch (cause) {
        const said = String(cause);
        failures.set(said, (failures.get(said) ?? 0) + 1);
      }
    }
    await pool.close();
  }
};

const change = async (): Promise<void> => {
  for (; changesLeft > 0; changesLeft -= 1) {
    const isEven = changesLeft % 2 === 0;
    const nth = Math.floor(changesLeft / 2);
    if (isEven) {
      const comes = aPage(`late${nth}.svc.localhost`, "EMPTY");
      const removed = [`late${nth + 5}.svc.localhost`];
      await edge.serve({ upserts: [aProxy(host, (nth % 2 === 0 ? blue : green).address), comes], removed });
    } else await tell({ upserts: shown.slice(nth % 2, (nth % 2) + 1) });
  }
};

const from = performance.now();
await Promise.all([
  change(),
  ...Array.from({ length: ways.http }, () => visitor(false)),
  ...Array.from({ length: ways.tls }, () => visitor(true)),
]);
const partsBefore = streams.map(({ parts }) => parts);
await waitFor(() => streams.every(({ parts, lost }, n) => lost || parts > (partsBefore[n] ?? 0)));
const streamsLost = streams.filter(({ lost }) => lost).length;
await edge.caddy.kill();
const answered = asked;
await waitFor(() => counted.requests >= answered, 20_000).catch(() => {});

show("requests", `${asked} in ${((performance.now() - from) / 1000).toFixed(0)} s`);
show("changes of routes and certificates", `${changesInAll}, table of ${applier.routes().size} hosts`);
show("requests lost", [...failures].map(([said, count]) => `${count} x ${said}`).join(", ") || 0);
show("streams lost", `${streamsLost} of ${streamsOpen}`);
show("counted after Caddy was killed", `${counted.requests} of ${answered}`);
if (failures.size > 0 || streamsLost > 0 || counted.requests !== answered) process.exitCode = 1;
