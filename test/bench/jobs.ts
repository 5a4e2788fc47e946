import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Row } from "./table.ts";

const names = {
  idle: { text: "a round of the clock with 10,000 jobs and none due, p50", share: 0.5, aimMs: 2 },
  pauses: { text: "a look at the pauses of 10,000 jobs, p50", share: 0.5, aimMs: null },
  minute: { text: "a thousand jobs that are due at once are begun", share: 1, aimMs: null },
} as const;

/** What the clock of scheduled jobs costs. */
export async function clockOfJobs(): Promise<Row[]> {
  const script = join(repositoryRoot, "control", "src", "tenants", "jobs", "clock", "testing-bench.ts");
  const child = spawnProgram([nodeBinary(), script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the clock could not be measured"))),
  ])) as [string];
  const tookMs = JSON.parse(line) as Record<keyof typeof names, number[]>;
  return (Object.keys(names) as (keyof typeof names)[]).map((name) => {
    const { text, share, aimMs } = names[name];
    const aim = aimMs === null ? null : { text: `<= ${aimMs} ms`, met: (value: number) => value <= aimMs };
    return { name: text, unit: "ms", samples: [quantile(tookMs[name], share)], floor: null, aim };
  });
}

const quantile = (samples: readonly number[], share: number): number =>
  [...samples].sort((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? Number.NaN;
