/**
 * What one cluster costs as it grows: the store, a replica's view, and the leader's rounds in which there is nothing to do, at
 * each size in a process, an etcd and a Postgres of its own. Prints the costs, and how they grow against the size before.
 *
 * Run: npm run bench -- scale [NODES,NODES,…]; 20,000 nodes take some minutes and 4 GB.
 */
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";

const figures = {
  sites: "sites, a container each",
  etcdKeys: "keys in etcd",
  etcdMb: "their keys and values, MB",
  tableMb: "table of edges, MB",
  viewMs: "a replica's view is whole after, ms",
  viewMb: "and takes, MB",
  scheduleMs: "scheduler's round, ms",
  keepMs: "keeper's round, ms",
  publishMs: "publisher's round, ms",
  digestMs: "digest of the table, ms",
} as const;
type Figures = Record<keyof typeof figures, number>;

const sizes = (process.argv[2] ?? "100,1000,5000").split(",").map(Number);
if (sizes.some((size) => !Number.isInteger(size) || size < 1)) throw new RangeError("sizes: whole numbers of nodes");

const script = join(repositoryRoot, "control", "src", "fleet", "cluster", "testing-scale.ts");
async function measure(nodes: number): Promise<Figures> {
  const child = spawnProgram([nodeBinary(), "--expose-gc", "--max-old-space-size=8192", script, String(nodes)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error(`${nodes} nodes could not be measured`))),
  ])) as [string];
  return JSON.parse(line) as Figures;
}

const loadAtStart = loadavg();
const measured: { nodes: number; found: Figures }[] = [];
for (const nodes of sizes) measured.push({ nodes, found: await measure(nodes) });

const text = (value: number): string => value.toLocaleString("en-US", { maximumSignificantDigits: 3 });
const growth = (name: keyof Figures, at: number): string => {
  const [now, before] = [measured[at], measured[at - 1]];
  if (now === undefined || before === undefined) return "";
  const share = now.found[name] / before.found[name] / (now.nodes / before.nodes);
  return ` (×${share.toFixed(2)})`;
};
const rows = [
  ["nodes", ...measured.map(({ nodes }) => text(nodes))],
  ...(Object.keys(figures) as (keyof Figures)[]).map((name) => [
    figures[name],
    ...measured.map(({ found }, at) => `${text(found[name])}${growth(name, at)}`),
  ]),
];
const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
for (const row of rows)
  console.log(
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0))).join("  "),
  );
console.log(
  `\nIn brackets: growth against the nodes' own; 1 is linear. Load average ${loadAtStart[0]?.toFixed(2)} at the start.`,
);

const dir = join(repositoryRoot, ".svc-local");
await mkdir(dir, { recursive: true });
await writeFile(
  join(dir, "bench-scale.json"),
  `${JSON.stringify({ at: new Date(), loadAtStart, measured }, null, 1)}\n`,
);
