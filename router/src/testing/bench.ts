/**
 * Measures the edge: what a request costs Caddy over a plain configuration of one route of the same run, and how long a
 * change takes. Cost is CPU time of the Caddy process, in turns and the least of several rounds, so it holds
 * on a busy machine; rates would not, and are told for orientation.
 *
 * Run: node router/src/testing/bench.ts
 */

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Pool } from "undici";
import { hasModule, usableCaddy } from "../caddy.ts";
import { edgeModule } from "../render/edge-module.ts";
import { type Case, type Cost, costs, pin } from "./bench-cost.ts";
import { plainHost, startPlain, startUncounted } from "./bench-plain.ts";
import { digestOfBundle, filesBundle } from "./bundle.ts";
import { startTestEdge } from "./edge.ts";
import { aGate, signedIn } from "./gate.ts";
import { aComplete, aDelta, aProxy, aStatic, guarded } from "./routes.ts";
import { waitFor } from "./wait-for.ts";

const hostCount = 10_000;
const changes = 200;
/** In memory, as the table of names is meant to be. */
const memoryDir = "/dev/shm";
const hashedName = "assets/index-BxK2a9_f.js";
/** Caddy has one core; who asks and who answers behind it share another. */
const cores = { caddy: 0, others: 1 };

const encodings = { "accept-encoding": "gzip, deflate, br, zstd" };

const hostOf = (n: number) => `site${n}.svc.localhost`;

async function startApp(answer: string) {
  const server = createServer((_, response) => response.end(answer));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    address: `127.0.0.1:${port}`,
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const show = (name: string, value: string) => console.log(`${name.padEnd(52)} ${value}`);

/** One line per case: its cost, how many times the floor that is, and whether that was aimed at. */
function showCosts(cases: readonly Case[], cost: ReadonlyMap<string, Cost>): void {
  for (const { name, floor } of cases) {
    const { microseconds = Number.NaN, requestsPerSecond = 0 } = cost.get(name) ?? {};
    const below = floor && cost.get(floor.name)?.microseconds;
    const ratio = below === undefined ? null : microseconds / below;
    const aim = floor?.atMost;
    const verdict = ratio === null || aim === undefined ? "" : `, aim ${aim}: ${ratio <= aim ? "met" : "MISSED"}`;
    const over = ratio === null ? "" : `  ${ratio.toFixed(2)} x ${floor?.name}${verdict}`;
    show(
      name,
      `${microseconds.toFixed(1).padStart(6)} µs ${Math.round(requestsPerSecond).toString().padStart(6)}/s${over}`,
    );
  }
}

function quantiles(samples: readonly number[]): string {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1);
  return `median ${at(0.5)} ms, 95 % ${at(0.95)} ms, worst ${at(1)} ms`;
}

const dir = await mkdtemp(join(tmpdir(), "svc-bench-"));
const memory = await mkdtemp(join(memoryDir, "svc-bench-"));
try {
  using blue = await startApp("blue");
  using green = await startApp("green");
  const file = Buffer.alloc(1024, "x");
  const files = { "index.html": file, [hashedName]: file };
  const onPlain = { logDir: memory, upstream: blue.address, files };
  await using plain = await startPlain({ dir: join(dir, "plain"), settings: {}, ...onPlain });
  await using tuned = await startPlain({ dir: join(dir, "tuned"), settings: { GOGC: "400" }, ...onPlain });
  await using edge = await startTestEdge({ env: { SVC_ROUTER_TABLE_DIR: join(memory, "table") } });
  const { applier } = edge.edge();
  const bundle = await filesBundle(files);
  edge.archives.set(digestOfBundle(bundle), bundle);

  const routes = Array.from({ length: hostCount }, (_, n) => aProxy(hostOf(n), blue.address));
  const started = performance.now();
  const gate = await aGate("open sesame");
  await edge.edge().gates.learn([gate]);
  const docsHost = "docs.svc.localhost";
  const protectedHost = "protected.svc.localhost";
  routes.push(guarded(aProxy(protectedHost, blue.address), gate.revision));
  applier.submit(aComplete(1, [...routes, aStatic(docsHost, digestOfBundle(bundle))]));
  await waitFor(() => applier.state().generation === 1n && applier.state().behindHosts.length === 0, 60_000);
  show(`first table of ${hostCount} hosts, to the report`, `${(performance.now() - started).toFixed(0)} ms`);

  const uncounted = await startUncounted(join(dir, "uncounted"), edge);
  await using _uncountedCaddy = uncounted.caddy;
  const hasOurs = await hasModule(edge.caddy.binary, edgeModule);
  const plainCase = { pid: plain.pid, host: plainHost };
  const edgeCase = { pid: edge.caddy.pid, address: edge.http };
  const one = { host: hostOf(7), headers: {} };
  const over = (name: string, atMost?: number) => ({ floor: { name, ...(atMost !== undefined && { atMost }) } });
  const cookie = await signedIn(edge, protectedHost, "open sesame");
  const cases: Case[] = [
    { ...plainCase, name: "proxy, plain", address: plain.proxy },
    { ...plainCase, name: "proxy, plain, logged", address: plain.loggedProxy },
    { ...plainCase, name: "proxy, plain, GOGC=400", pid: tuned.pid, address: tuned.proxy },
    { ...edgeCase, ...one, name: "proxy", ...over("proxy, plain", hasOurs ? 1.15 : 1.5) },
    { ...one, name: "proxy, not counted", pid: uncounted.caddy.pid, address: uncounted.http, ...over("proxy, plain") },
    { ...edgeCase, ...one, name: "proxy, to a browser", headers: encodings, ...over("proxy, plain") },
    {
      ...{ ...edgeCase, name: `proxy, ${hostCount} hosts in turn`, host: (n) => hostOf((n * 7919) % hostCount) },
      ...over("proxy, one host in turn"),
    },
    { ...edgeCase, name: "proxy, one host in turn", host: () => hostOf(7) },
    { ...edgeCase, name: "proxy, with a password", host: protectedHost, headers: { cookie }, ...over("proxy", 1.2) },
    { ...edgeCase, name: "password page", host: protectedHost, statusClass: 4 },
    { ...plainCase, name: "TLS + h2, plain", address: plain.tlsProxy, tls: true },
    { ...edgeCase, ...one, name: "TLS + h2", address: edge.https, tls: true, ...over("TLS + h2, plain", 1.3) },
    { ...plainCase, name: "file, plain", address: plain.file, path: `/${hashedName}` },
    { ...plainCase, name: "file, plain, logged", address: plain.loggedFile, path: `/${hashedName}` },
    { ...plainCase, name: "file, plain, GOGC=400", pid: tuned.pid, address: tuned.file, path: `/${hashedName}` },
    {
      ...{ ...edgeCase, name: "file with a hashed name", host: docsHost, path: `/${hashedName}` },
      ...over("file, plain", 1.5),
    },
    { ...edgeCase, name: "index.html of a site", host: docsHost, ...over("file, plain") },
    { ...edgeCase, name: "page for an unknown host", host: "no.svc.localhost", statusClass: 4 },
  ];
  if (availableParallelism() > 1) {
    for (const pid of new Set(cases.map((each) => each.pid))) pin(pid, cores.caddy);
    pin(process.pid, cores.others);
  }
  const version = await usableCaddy(edge.caddy.binary, edge.config.inFront);
  show("Caddy", `${version}${hasOurs ? " with our module" : ""}`);
  showCosts(cases, await costs(cases));

  const visible: number[] = [];
  const reported: number[] = [];
  const host = hostOf(1);
  const pool = new Pool(`http://${edge.http}`, { connections: 4 });
  for (let n = 0; n < changes; n += 1) {
    const [wanted, upstream] = n % 2 === 0 ? ["green", green.address] : ["blue", blue.address];
    const from = performance.now();
    applier.submit(aDelta(n + 1, n + 2, { upserts: [aProxy(host, upstream)] }));
    for (let seen = ""; seen !== wanted; ) {
      seen = await (await pool.request({ path: "/", method: "GET", headers: { host } })).body.text();
    }
    visible.push(performance.now() - from);
    // Without a pause, which would be measured.
    while (applier.state().generation !== BigInt(n + 2)) await new Promise((resolve) => setImmediate(resolve));
    reported.push(performance.now() - from);
  }
  await pool.close();
  show(`one change among ${hostCount} hosts, to a visitor`, quantiles(visible));
  show(`one change among ${hostCount} hosts, to the report`, quantiles(reported));
} finally {
  await rm(dir, { recursive: true, force: true });
  await rm(memory, { recursive: true, force: true });
}
