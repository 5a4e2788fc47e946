import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Row } from "./table.ts";

const aimMs = 50;

/** What somebody waits for who looks at all figures of a project, among 10,000 with two years of days each. */
export async function figuresOfYears(): Promise<Row[]> {
  const script = join(repositoryRoot, "control", "src", "tenants", "metrics", "testing-bench.ts");
  const child = spawnProgram([nodeBinary(), script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the figures could not be measured"))),
  ])) as [string];
  const { explained, ...tookMs } = JSON.parse(line) as Record<
    "metrics" | "resources" | "series" | "stats",
    number[]
  > & {
    explained: string[];
  };
  console.log(explained.join("\n"));
  const names = {
    metrics: "all figures of visitors of a project, p95",
    resources: "all figures of its containers, p95",
    series: "days of a year of the installation, p95",
    stats: "what the installation does now, p95",
  } as const;
  return (Object.keys(names) as (keyof typeof names)[]).map((name) => ({
    name: names[name],
    unit: "ms",
    samples: [p95(tookMs[name])],
    floor: null,
    aim: { text: `<= ${aimMs} ms`, met: (value) => value <= aimMs },
  }));
}

const p95 = (samples: readonly number[]): number =>
  [...samples].sort((a, b) => a - b)[Math.floor(samples.length * 0.95)] ?? Number.NaN;
