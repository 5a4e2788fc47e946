/**
 * `npm run bench:cluster`: the cluster's goal numbers, measured on this machine.
 *
 * --row 5,14      only these rows
 * --agents 1000   how many simulated agents, ascending; 1000,5000 unless given
 * --quick         few and short runs: shows that everything works, measures nothing
 * --profile DIR   writes processor profiles of control there, and the statements of row 3
 * --rate 20       deployments per second of row 3; the aims are for 20
 */
import { mkdir, writeFile } from "node:fs/promises";
import { cpus, loadavg, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "@svc/deploy/paths";
import { measureCluster } from "./cluster.ts";
import { benchFailover } from "./failover.ts";
import { type Elsewhere, isMet, judgedValue, type Measurement, renderReport } from "./measure.ts";
import { measureContainers } from "./rows/containers.ts";
import { measureDecisions } from "./rows/decisions.ts";

const { values } = parseArgs({
  options: {
    row: { type: "string" },
    agents: { type: "string", default: "1000,5000" },
    quick: { type: "boolean", default: false },
    profile: { type: "string" },
    rate: { type: "string", default: "20" },
  },
});
const numbers = (text: string) => text.split(",").map(Number);
const only = values.row === undefined ? null : new Set(numbers(values.row));
const sizes = numbers(values.agents).sort((a, b) => a - b);
if (sizes.some((size) => !Number.isInteger(size) || size < 20)) throw new RangeError("--agents: at least 20 each");
const rate = Number(values.rate);
if (!(rate > 0)) throw new RangeError("--rate: above 0");
const isWanted = (...rows: number[]) => only === null || rows.some((row) => only.has(row));

const loadAtStart = loadavg();
const startedAt = performance.now();
const measured: Measurement[] = [];
const failures: { phase: string; reason: string }[] = [];
const log = (line: string) =>
  console.error(`[${((performance.now() - startedAt) / 1000).toFixed(0).padStart(4)} s] ${line}`);
const report = (measurement: Measurement) => void measured.push(measurement);

/** Whoever ends this early gets what was measured so far, and a clean machine. */
const stopped = Promise.withResolvers<never>();
stopped.promise.catch(() => {});
let isStopped = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    log(`${signal}: cleaning up`);
    isStopped = true;
    stopped.reject(new Error("stopped"));
  });
}

/** A phase that fails costs its own rows only. */
async function phase(name: string, timeoutMs: number, work: () => Promise<void>): Promise<void> {
  if (isStopped) return;
  log(name);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${timeoutMs / 1000} s`)), timeoutMs);
  });
  try {
    await Promise.race([work(), late, stopped.promise]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    failures.push({ phase: name, reason });
    log(`${name} FAILED: ${error instanceof Error ? error.stack : reason}`);
  } finally {
    clearTimeout(timer);
  }
}

if (values.profile !== undefined) await mkdir(values.profile, { recursive: true });
const { quick } = values;
if (isWanted(1)) await phase("decisions", 180_000, () => measureDecisions(report));
if (isWanted(0, 2, 3, 5, 7, 8, 11, 12, 13, 14, 15)) {
  const profileDir = values.profile ?? null;
  try {
    await measureCluster({ sizes, quick, rate, profileDir, isWanted, phase, report, log });
  } catch (error) {
    failures.push({ phase: "the rows with simulated agents", reason: String(error) });
    log(`the rows with simulated agents FAILED: ${error instanceof Error ? error.stack : String(error)}`);
  }
}
if (isWanted(10)) {
  await phase("failover", 600_000, async () => {
    for (const each of await benchFailover(quick ? { kills: 1, freezes: 1, log } : { log })) report(each);
  });
}
if (isWanted(4, 9)) await phase("containers", 360_000, () => measureContainers({ quick, report, log }));

const elsewhere: Elsewhere[] = [
  { row: 6, metric: "node death to replacement healthy and routed", where: "npm run faults" },
  { row: 16, metric: "power of the simulation", where: "npm run sim" },
];
const machine = {
  cores: cpus().length,
  model: cpus()[0]?.model ?? "",
  memoryGb: Math.round(totalmem() / 1024 ** 3),
  node: process.version,
  loadAtStart,
  loadAtEnd: loadavg(),
};
const file = process.env["SVC_BENCH_OUT"] ?? join(repositoryRoot, ".svc-local", "bench-cluster.json");
await mkdir(dirname(file), { recursive: true });
const rows = measured.map((each) => ({
  ...each,
  aim: each.aim && { text: each.aim.text, judged: each.aim.judged, value: judgedValue(each.samples, each.aim.judged) },
  met: isMet(each),
}));
await writeFile(
  file,
  `${JSON.stringify({ at: new Date().toISOString(), machine, quick, sizes, rows, elsewhere, failures }, null, 1)}\n`,
);
console.log(
  `\n${renderReport(
    measured,
    elsewhere.filter(({ row }) => isWanted(row)),
  )}\n`,
);
for (const { phase: name, reason } of failures) console.log(`not measured: ${name}: ${reason}`);
console.log(
  `${machine.cores} cores, load average ${loadAtStart[0]?.toFixed(2)} at the start, ${machine.loadAtEnd[0]?.toFixed(2)} at the end; ${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes; samples in ${file}`,
);
// A phase that was given up may still wait for something.
process.exit(failures.length > 0 ? 1 : 0);
