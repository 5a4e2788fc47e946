import { mkdir, writeFile } from "node:fs/promises";
import { cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "@svc/deploy/paths";

/** What was measured of one application. Seconds are those of `svc deploy`, from its start to its end. */
export interface Measured {
  app: string;
  firstSeconds: number;
  secondSeconds: number;
  /** Of the artifact as the registry keeps it, the base image included. */
  artifactMb: number;
  /** Of the running container, after a few requests; null for a static site. */
  memoryMb: number | null;
}

/** The measurements as aligned text. */
export function renderMeasured(all: readonly Measured[]): string {
  const head = ["app", "first deploy", "second deploy", "artifact", "memory"];
  const rows = all.map(({ app, firstSeconds, secondSeconds, artifactMb, memoryMb }) => [
    app,
    `${firstSeconds.toFixed(1)} s`,
    `${secondSeconds.toFixed(1)} s`,
    `${artifactMb.toFixed(artifactMb < 1 ? 2 : 0)} MB`,
    memoryMb === null ? "-" : `${memoryMb.toFixed(0)} MB`,
  ]);
  return aligned(head, rows);
}

/** Rows under their heads; the first column is text and the others are numbers. */
export function aligned(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ");
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** Writes the measurements with the facts of the machine beside what benchmarks write. Returns the file. */
export async function writeMeasured(all: readonly object[], name = "apps"): Promise<string> {
  const dir = join(repositoryRoot, ".svc-local");
  await mkdir(dir, { recursive: true });
  const file = join(dir, `${name}.json`);
  const machine = { cores: cpus().length, memoryGb: Math.round(totalmem() / 1024 ** 3), loadAtEnd: loadavg() };
  await writeFile(file, `${JSON.stringify({ at: new Date().toISOString(), machine, [name]: all }, null, 2)}\n`);
  return file;
}
