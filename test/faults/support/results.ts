import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type Operation, toLines } from "./history.ts";
import type { VisitReport } from "./prober.ts";

/** What one fault did. */
const row = z.object({
  fault: z.string(),
  observed: z.string(),
  /** Milliseconds from the fault, or from its end, until something happened. */
  timesMs: z.record(z.string(), z.number()),
  /** Visits of each site while the fault and its end were watched. */
  visits: z.record(z.string(), z.looseObject({ sent: z.number(), failed: z.number(), longestGapMs: z.number() })),
  loadAverage: z.number(),
});
type Row = z.infer<typeof row>;

export interface Finding {
  fault: string;
  observed: string;
  timesMs?: Record<string, number>;
  visits: Record<string, VisitReport>;
}

/**
 * Writes what a fault did into the directory that SVC_FAULTS_OUT names, one file for each fault and one table of all;
 * without one it is only printed.
 */
export async function recordFault(finding: Finding): Promise<void> {
  const rounded = Object.entries(finding.timesMs ?? {}).map(([what, ms]) => [what, Math.round(ms)] as const);
  const entry: Row = { ...finding, timesMs: Object.fromEntries(rounded), loadAverage: loadavg()[0] ?? 0 };
  console.error(`  ${cells(entry).join(" | ")}`);
  for (const [site, { failures }] of Object.entries(finding.visits)) {
    if (failures.length > 0) console.error(`    ${site}: ${JSON.stringify(failures.slice(0, 8))}`);
  }
  const dir = process.env["SVC_FAULTS_OUT"];
  if (dir === undefined || dir === "") return;
  await mkdir(dir, { recursive: true });
  const name = finding.fault.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  await writeFile(join(dir, `${name}.json`), `${JSON.stringify(entry, null, 2)}\n`);
  await writeFile(join(dir, "faults.md"), await table(dir));
}

/**
 * Writes a history as JSON lines, for a judge to read it again: beside what was found, or into the directory for what is
 * temporary. Returns the file's path.
 */
export async function recordHistory(name: string, history: readonly Operation[]): Promise<string> {
  const dir = process.env["SVC_FAULTS_OUT"] || join(tmpdir(), "svc-faults");
  await mkdir(dir, { recursive: true });
  const path = join(dir, `${name}-${Date.now()}.history.jsonl`);
  await writeFile(path, toLines(history));
  return path;
}

async function table(dir: string): Promise<string> {
  const files = (await readdir(dir)).filter((name) => name.endsWith(".json")).sort();
  const rows = await Promise.all(
    files.map(async (name) => row.parse(JSON.parse(await readFile(join(dir, name), "utf8")))),
  );
  const lines = [
    ["Fault", "What was observed", "Times", "Failed requests"],
    ["---", "---", "---", "---"],
  ];
  return `${[...lines, ...rows.map(cells)].map((line) => `| ${line.join(" | ")} |`).join("\n")}\n`;
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

function cells({ fault, observed, timesMs, visits }: Row): string[] {
  const failed = Object.entries(visits).map(([site, { sent, failed, longestGapMs }]) => {
    const gap = longestGapMs > 0 ? `, longest gap ${seconds(longestGapMs)}` : "";
    return `${site}: ${failed} of ${sent}${gap}`;
  });
  const times = Object.entries(timesMs).map(([what, ms]) => `${what} ${seconds(ms)}`);
  return [fault, observed, times.join("; "), failed.join("; ")];
}
