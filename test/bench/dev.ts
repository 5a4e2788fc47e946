import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";
import { processorTime } from "./processor-time.ts";
import type { Row } from "./table.ts";

const cli = join(repositoryRoot, "cli");
const filesWatched = 20_000;
const filesPerDirectory = 20;
const idleMs = 10_000;

/** What `svc dev` adds before the server that it starts begins, and what watching a large tree takes while nothing happens. */
export async function developing(times: number): Promise<Row[]> {
  const dir = await mkdtemp(join(tmpdir(), "svc-bench-dev-"));
  try {
    const building = spawnProgram([nodeBinary(), join(cli, "build.ts"), join(dir, "dist")], { stdio: "inherit" });
    await once(building, "exit");
    await cp(join(cli, "bin"), join(dir, "bin"), { recursive: true });
    const program = join(dir, "bin", "svc.mjs");
    return [...(await starts(dir, program, times)), await idle(dir, program, times)];
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function starts(dir: string, program: string, times: number): Promise<Row[]> {
  const app = join(dir, "app");
  await mkdir(app);
  await writeFile(join(app, "package.json"), "{}");
  // Where the first line is the first thing that it does, its own start counts on both sides.
  await writeFile(join(app, "index.js"), 'console.log("begun")\n');
  const withManifest = join(dir, "with-manifest");
  await cp(app, withManifest, { recursive: true });
  await writeFile(join(withManifest, "svc.yml"), "version: 2\napp: { name: Shop, type: ssr }\n");
  const bare: number[] = [];
  const plain: number[] = [];
  const manifest: number[] = [];
  // The first start fills Node's compile cache.
  for (const cwd of [app, withManifest])
    await firstLine([program, "dev", "--port", String(await freePort())], cwd, dir);
  for (let round = 0; round < times; round += 1) {
    const port = String(await freePort());
    bare.push(await firstLine(["."], app, dir));
    plain.push(await firstLine([program, "dev", "--port", port], app, dir));
    manifest.push(await firstLine([program, "dev", "--port", port], withManifest, dir));
  }
  const floor = { name: "node .", samples: bare };
  const aim: Row["aim"] = { text: "<= floor + 150 ms", met: (value, least) => value <= least + 150 };
  return [
    { name: "svc dev until the server begins", unit: "ms", samples: plain, floor, aim },
    { name: "the same with a manifest", unit: "ms", samples: manifest, floor, aim },
  ];
}

async function idle(dir: string, program: string, times: number): Promise<Row> {
  const site = join(dir, "site");
  for (let at = 0; at < filesWatched / filesPerDirectory; at++) {
    const below = join(site, `d${at % 50}`, `e${at}`);
    await mkdir(below, { recursive: true });
    for (let file = 0; file < filesPerDirectory; file++) await writeFile(join(below, `${file}.html`), "");
  }
  await writeFile(join(site, "index.html"), "");
  const child = start([program, "dev", "--port", String(await freePort())], site, dir);
  const samples: number[] = [];
  try {
    // Said once everything is watched.
    await once(child.stderr, "data");
    for (let round = 0; round < times; round += 1) {
      const before = await processorTime(child.pid ?? 0);
      const from = performance.now();
      await sleep(systemClock, idleMs);
      const after = await processorTime(child.pid ?? 0);
      samples.push((100 * (after.own - before.own)) / (1000 * (performance.now() - from)));
    }
  } finally {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  const aim = { text: "<= 1 %", met: (value: number) => value <= 1 };
  return { name: `watching ${filesWatched} files, of a core`, unit: "%", samples, floor: null, aim };
}

const start = (args: readonly string[], cwd: string, home: string) =>
  spawnProgram([nodeBinary(), ...args], {
    cwd,
    env: { PATH: process.env["PATH"], HOME: home, XDG_CACHE_HOME: join(home, "cache") },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 300_000,
  });

/** Milliseconds until it writes to stdout. */
async function firstLine(args: readonly string[], cwd: string, home: string): Promise<number> {
  const from = performance.now();
  const child = start(args, cwd, home);
  child.stderr.resume();
  const ended = once(child, "exit");
  const said = await Promise.race([once(child.stdout, "data").then(() => performance.now()), ended]);
  await ended;
  if (typeof said !== "number") throw new Error(`node ${args.join(" ")} said nothing`);
  return said - from;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
