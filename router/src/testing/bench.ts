/**
 * Measures the edge: what a request costs Caddy over a plain configuration of one route, and how long a
 * change takes. CPU time is read from the Caddy process, so it holds on a busy machine; rates would not.
 * Run: node router/src/testing/bench.ts
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pool } from "undici";
import { createCaddyAdmin } from "../caddy.ts";
import { digestOfBundle, filesBundle } from "./bundle.ts";
import { freePorts, startCaddy } from "./caddy-process.ts";
import { startTestEdge } from "./edge.ts";
import { aComplete, aDelta, aProxy, aStatic } from "./routes.ts";
import { waitFor } from "./wait-for.ts";

const requests = 20_000;
const connections = 32;
const hostCount = 10_000;
const rounds = 3;
const memoryDir = "/dev/shm";
/** Of the kernel's clock for process times. */
const ticksPerSecond = 100;

const hostOf = (n: number) => `site${n}.svc.localhost`;

async function cpuMicroseconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [utime = "0", stime = "0"] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return ((Number(utime) + Number(stime)) * 1_000_000) / ticksPerSecond;
}

/** Caddy's CPU time per request, µs: the least of some rounds, which is the one least disturbed. */
async function costOf(pid: number, address: string, hostFor: (n: number) => string, path: string): Promise<number> {
  const pool = new Pool(`http://${address}`, { connections });
  const ask = async (n: number) => {
    const { statusCode, body } = await pool.request({ path, method: "GET", headers: { host: hostFor(n) } });
    await body.dump();
    if (statusCode >= 500) throw new Error(`answered ${statusCode}`);
  };
  const run = async (count: number) => {
    let next = 0;
    const worker = async () => {
      while (next < count) await ask(next++);
    };
    await Promise.all(Array.from({ length: connections }, worker));
  };
  await run(2000);
  const costs: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const before = await cpuMicroseconds(pid);
    await run(requests);
    costs.push(((await cpuMicroseconds(pid)) - before) / requests);
  }
  await pool.close();
  return Math.min(...costs);
}

async function plainCosts(upstream: string, file: Buffer): Promise<{ proxy: number; file: number }> {
  const dir = await mkdtemp(join(tmpdir(), "svc-bench-"));
  await using caddy = await startCaddy(join(dir, "caddy"));
  const [port = 0, filePort = 0] = await freePorts(2);
  const root = join(dir, "files");
  await mkdir(root);
  await writeFile(join(root, "index.html"), file);
  const server = (listen: number, handler: object) => ({
    listen: [`127.0.0.1:${listen}`],
    automatic_https: { disable: true },
    routes: [{ handle: [handler] }],
  });
  await createCaddyAdmin(caddy.adminSocket).load(
    JSON.parse(
      JSON.stringify({
        admin: { listen: `unix/${caddy.adminSocket}` },
        apps: {
          http: {
            servers: {
              proxy: server(port, { handler: "reverse_proxy", upstreams: [{ dial: upstream }] }),
              file: server(filePort, { handler: "file_server", root }),
            },
          },
        },
      }),
    ),
  );
  const host = () => "plain.test";
  const proxy = await costOf(caddy.pid, `127.0.0.1:${port}`, host, "/");
  const static1KiB = await costOf(caddy.pid, `127.0.0.1:${filePort}`, host, "/");
  await caddy[Symbol.asyncDispose]();
  await rm(dir, { recursive: true });
  return { proxy, file: static1KiB };
}

const show = (name: string, value: string) => console.log(`${name.padEnd(52)} ${value}`);
const us = (value: number) => `${value.toFixed(1)} µs`;
const quantiles = (samples: number[]) => {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(2);
  return `median ${at(0.5)} ms, 99 % ${at(0.99)} ms, worst ${at(1)} ms`;
};

const server = createServer((_, response) => response.end("ok")).listen(0, "127.0.0.1");
await waitFor(() => server.listening);
const upstream = `127.0.0.1:${(server.address() as AddressInfo).port}`;
const file = Buffer.alloc(1024, "x");
const bundle = await filesBundle({ "index.html": file });

const plain = await plainCosts(upstream, file);
show("proxy, plain Caddy", us(plain.proxy));
show("file of 1 KiB, plain Caddy", us(plain.file));

const tableDir = await mkdtemp(join(memoryDir, "svc-bench-"));
{
  await using edge = await startTestEdge({ env: { SVC_ROUTER_TABLE_DIR: tableDir } });
  edge.archives.set(digestOfBundle(bundle), bundle);
  const { applier } = edge.edge();
  const applied = (generation: number) => waitFor(() => applier.state().generation === BigInt(generation), 60_000);
  const routes = Array.from({ length: hostCount }, (_, n) => aProxy(hostOf(n), upstream));
  routes.push(aStatic("docs.svc.localhost", digestOfBundle(bundle)));
  const started = performance.now();
  applier.submit(aComplete(1, routes));
  await applied(1);
  show(`first table of ${hostCount} hosts, to the report`, `${(performance.now() - started).toFixed(0)} ms`);

  const { pid } = edge.caddy;
  const over = (value: number, base: number) => `${us(value)} (+${(value - base).toFixed(1)})`;
  show("proxy, one host of 10,000", over(await costOf(pid, edge.http, () => hostOf(7), "/"), plain.proxy));
  show(
    "proxy, every host of 10,000 in turn",
    over(await costOf(pid, edge.http, (n) => hostOf((n * 7919) % hostCount), "/"), plain.proxy),
  );
  show("file of 1 KiB", over(await costOf(pid, edge.http, () => "docs.svc.localhost", "/"), plain.file));
  show("page for an unknown host", us(await costOf(pid, edge.http, (n) => `no${n}.svc.localhost`, "/")));

  const visible: number[] = [];
  const reported: number[] = [];
  const host = hostOf(1);
  const twin = createServer((_, response) => response.end("y")).listen(0, "127.0.0.1");
  await waitFor(() => twin.listening);
  const targets = [upstream, `127.0.0.1:${(twin.address() as AddressInfo).port}`];
  const pool = new Pool(`http://${edge.http}`, { connections: 4 });
  for (let n = 0; n < 200; n += 1) {
    const wanted = n % 2 === 0 ? "y" : "ok";
    const from = performance.now();
    applier.submit(aDelta(n + 1, n + 2, { upserts: [aProxy(host, targets[(n + 1) % 2] ?? "")] }));
    const report = waitForState(() => applier.state().generation === BigInt(n + 2)).then(() =>
      reported.push(performance.now() - from),
    );
    for (let seen = ""; seen !== wanted; ) {
      seen = await (await pool.request({ path: "/", method: "GET", headers: { host } })).body.text();
    }
    visible.push(performance.now() - from);
    await report;
  }
  show(`one change of ${hostCount} hosts, to a visitor`, quantiles(visible));
  show(`one change of ${hostCount} hosts, to the report`, quantiles(reported));
  await pool.close();
  twin.close();
}
await rm(tableDir, { recursive: true, force: true });
server.closeAllConnections();
server.close();

/** As `waitFor`, without a pause that would be measured. */
async function waitForState(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}
