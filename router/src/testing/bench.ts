/**
 * Measures the edge: what a request costs Caddy over a plain configuration of one route, and how long a
 * change takes. Cost is CPU time of the Caddy process, in turns and the least of several rounds, so it holds
 * on a busy machine; rates would not.
 *
 * Run: node router/src/testing/bench.ts
 */

import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@svc/runtime/system";
import { Pool } from "undici";
import { freePorts } from "../../../registry/src/testing/ports.ts";
import { createCaddyAdmin } from "../caddy.ts";
import { digestOfBundle, filesBundle } from "./bundle.ts";
import { startCaddy } from "./caddy-process.ts";
import { startTestEdge, type TestEdge } from "./edge.ts";
import { aGate, signedIn } from "./gate.ts";
import { aComplete, aDelta, aProxy, aStatic, guarded } from "./routes.ts";
import { waitFor } from "./wait-for.ts";

const requestsPerRound = 10_000;
const rounds = 7;
const connections = 32;
const hostCount = 10_000;
const changes = 200;
/** In memory, as the table of names is meant to be. */
const memoryDir = "/dev/shm";
/** Of the kernel's clock for process times. */
const ticksPerSecond = 100;

const hostOf = (n: number) => `site${n}.svc.localhost`;
const browser = { accept: "text/html,*/*", "accept-language": "en", "user-agent": "Mozilla/5.0 (X11; Linux x86_64)" };

interface Case {
  name: string;
  pid: number;
  address: string;
  host(n: number): string;
  /** Case that this one is compared with. */
  floor?: string;
  cookie?: string;
}

async function cpuMicroseconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [user = "0", system = "0"] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return ((Number(user) + Number(system)) * 1_000_000) / ticksPerSecond;
}

/** Caddy's CPU time per request by case, µs. */
async function costs(cases: readonly Case[]): Promise<Map<string, number>> {
  const least = new Map<string, number>();
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, pid, address, host, cookie } of cases) {
      const pool = new Pool(`http://${address}`, { connections });
      let next = 0;
      const visitor = async () => {
        while (next < requestsPerRound) {
          const headers = { ...browser, host: host(next++), ...(cookie !== undefined && { cookie }) };
          const { statusCode, body } = await pool.request({ path: "/", method: "GET", headers });
          await body.dump();
          if (statusCode >= 500) throw new Error(`${name} answered ${statusCode}`);
        }
      };
      const before = await cpuMicroseconds(pid);
      await Promise.all(Array.from({ length: connections }, visitor));
      const cost = ((await cpuMicroseconds(pid)) - before) / requestsPerRound;
      least.set(name, Math.min(cost, least.get(name) ?? cost));
      await pool.close();
    }
  }
  return least;
}

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

/** One route each: what no configuration can do without. */
async function startPlain(dir: string, upstream: string, file: Buffer) {
  const caddy = await startCaddy(join(dir, "caddy"));
  const [proxyPort = 0, filePort = 0] = await freePorts(2);
  const root = join(dir, "files");
  await mkdir(root);
  await writeFile(join(root, "index.html"), file);
  const server = (port: number, handler: { [key: string]: string | { dial: string }[] }) => ({
    listen: [`127.0.0.1:${port}`],
    automatic_https: { disable: true },
    routes: [{ handle: [handler] }],
  });
  const servers = {
    proxy: server(proxyPort, { handler: "reverse_proxy", upstreams: [{ dial: upstream }] }),
    file: server(filePort, { handler: "file_server", root }),
  };
  const admin = { listen: `unix/${caddy.adminSocket}` };
  await createCaddyAdmin(systemClock, caddy.adminSocket).load({ admin, apps: { http: { servers } } });
  return { caddy, proxy: `127.0.0.1:${proxyPort}`, file: `127.0.0.1:${filePort}` };
}

/** The edge's own configuration over the same table, without the access log. */
async function startUncounted(dir: string, edge: TestEdge) {
  const caddy = await startCaddy(dir);
  const [http = 0, https = 0] = await freePorts(2);
  const text = JSON.stringify(await createCaddyAdmin(systemClock, edge.caddy.adminSocket).config())
    .replaceAll(edge.caddy.adminSocket, caddy.adminSocket)
    .replaceAll(`"${edge.http}"`, `"127.0.0.1:${http}"`)
    .replaceAll(`"${edge.https}"`, `"127.0.0.1:${https}"`);
  const config = JSON.parse(text);
  for (const server of Object.values<{ logs?: object }>(config.apps.http.servers)) delete server.logs;
  delete config.logging.logs.access;
  await createCaddyAdmin(systemClock, caddy.adminSocket).load(config);
  return { caddy, http: `127.0.0.1:${http}` };
}

const show = (name: string, value: string) => console.log(`${name.padEnd(52)} ${value}`);

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
  const plain = await startPlain(dir, blue.address, file);
  await using _plainCaddy = plain.caddy;
  await using edge = await startTestEdge({ env: { SVC_ROUTER_TABLE_DIR: join(memory, "table") } });
  const { applier } = edge.edge();
  const bundle = await filesBundle({ "index.html": file });
  edge.archives.set(digestOfBundle(bundle), bundle);

  const routes = Array.from({ length: hostCount }, (_, n) => aProxy(hostOf(n), blue.address));
  const started = performance.now();
  const gate = await aGate("open sesame");
  await edge.edge().gates.learn([gate]);
  const protectedHost = "protected.svc.localhost";
  routes.push(guarded(aProxy(protectedHost, blue.address), gate.revision));
  applier.submit(aComplete(1, [...routes, aStatic("docs.svc.localhost", digestOfBundle(bundle))]));
  await waitFor(() => applier.state().generation === 1n && applier.state().behindHosts.length === 0, 60_000);
  show(`first table of ${hostCount} hosts, to the report`, `${(performance.now() - started).toFixed(0)} ms`);

  const uncounted = await startUncounted(join(dir, "uncounted"), edge);
  await using _uncountedCaddy = uncounted.caddy;
  const plainCase = { pid: plain.caddy.pid, host: () => "plain.test" };
  const edgeCase = { pid: edge.caddy.pid, address: edge.http };
  const cases: Case[] = [
    { ...plainCase, name: "proxy, plain Caddy", address: plain.proxy },
    { ...edgeCase, name: "proxy, one host", host: () => hostOf(7), floor: "proxy, plain Caddy" },
    {
      ...{ pid: uncounted.caddy.pid, address: uncounted.http, host: () => hostOf(7) },
      ...{ name: "proxy, one host, without the access log", floor: "proxy, plain Caddy" },
    },
    {
      ...edgeCase,
      name: `proxy, ${hostCount} hosts in turn`,
      host: (n) => hostOf((n * 7919) % hostCount),
      floor: "proxy, plain Caddy",
    },
    {
      ...{ ...edgeCase, name: "proxy, one host with a password, signed in", host: () => protectedHost },
      ...{ cookie: await signedIn(edge, protectedHost, "open sesame"), floor: "proxy, plain Caddy" },
    },
    { ...edgeCase, name: "password page", host: () => protectedHost },
    { ...plainCase, name: "file of 1 KiB, plain Caddy", address: plain.file },
    { ...edgeCase, name: "file of 1 KiB", host: () => "docs.svc.localhost", floor: "file of 1 KiB, plain Caddy" },
    { ...edgeCase, name: "page for an unknown host", host: (n) => `no${n}.svc.localhost` },
  ];
  const cost = await costs(cases);
  for (const { name, floor } of cases) {
    const value = cost.get(name) ?? 0;
    const over = floor === undefined ? "" : ` (+${(value - (cost.get(floor) ?? 0)).toFixed(1)})`;
    show(name, `${value.toFixed(1)} µs${over}`);
  }

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
