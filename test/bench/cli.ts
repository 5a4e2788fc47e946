import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Row } from "./table.ts";

const cli = join(repositoryRoot, "cli");

const measured: { name: string; args: string[]; aim: Row["aim"] }[] = [
  {
    name: "svc --version",
    args: ["--version"],
    aim: { text: "<= 2 x node", met: (value, bare) => value <= 2 * bare },
  },
  { name: "svc --help", args: ["--help"], aim: { text: "<= 150 ms", met: (value) => value <= 150 } },
  // Loads a command and all that it needs, and asks nobody.
  { name: "svc whoami --help", args: ["whoami", "--help"], aim: null },
];

/** How long the published program takes from its start to its end, beside a Node that does nothing, in turns. */
export async function startsOfCli(times: number): Promise<Row[]> {
  const dir = await mkdtemp(join(tmpdir(), "svc-bench-cli-"));
  try {
    await run([join(cli, "build.ts"), join(dir, "dist")], dir);
    await cp(join(cli, "bin"), join(dir, "bin"), { recursive: true });
    const program = join(dir, "bin", "svc.mjs");
    // The first start of each fills Node's compile cache.
    for (const { args } of measured) await run([program, ...args], dir);
    await listTools(program, dir);
    const listings: number[] = [];
    const bare: number[] = [];
    const samples = measured.map((): number[] => []);
    for (let round = 0; round < times; round += 1) {
      bare.push(await run(["-e", "0"], dir));
      for (const [at, { args }] of measured.entries()) samples[at]?.push(await run([program, ...args], dir));
      listings.push(await listTools(program, dir));
    }
    const floor = { name: "node -e 0", samples: bare };
    const rows = measured.map(
      ({ name, aim }, at): Row => ({ name, unit: "ms", samples: samples[at] ?? [], floor, aim }),
    );
    const aim = { text: "<= 200 ms", met: (value: number) => value <= 200 };
    return [...rows, { name: "svc mcp, tools/list", unit: "ms", samples: listings, floor, aim }];
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const opening = [
  {
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
  },
  { method: "notifications/initialized" },
  { id: 2, method: "tools/list" },
].map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

/** Milliseconds from the start of the server of tools until it has told what it has. */
async function listTools(program: string, dir: string): Promise<number> {
  const from = performance.now();
  const child = spawnProgram([nodeBinary(), program, "mcp", "--allow-writes"], {
    env: environment(dir),
    stdio: ["pipe", "pipe", "inherit"],
    timeout: 120_000,
  });
  const ended = once(child, "exit");
  child.stdin.write(opening.join(""));
  let answers = 0;
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    answers += String(chunk).split("\n").length - 1;
    if (answers === 2) break;
  }
  const tookMs = performance.now() - from;
  child.stdin.end();
  await ended;
  return tookMs;
}

const environment = (dir: string) => ({ PATH: process.env["PATH"], HOME: dir, XDG_CACHE_HOME: join(dir, "cache") });

/** Milliseconds from the start of Node to its end. What it compiles is kept in `dir`. */
async function run(args: readonly string[], dir: string): Promise<number> {
  const from = performance.now();
  const child = spawnProgram([nodeBinary(), ...args], {
    env: environment(dir),
    stdio: ["ignore", "ignore", "inherit"],
    timeout: 120_000,
  });
  const [status] = await once(child, "exit");
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}`);
  return performance.now() - from;
}
