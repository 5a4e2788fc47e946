import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Row } from "./table.ts";

const askedAimMs = 50;
const names = {
  metrics: { text: "all figures of visitors of a project, p95", aimMs: askedAimMs },
  resources: { text: "all figures of its containers, p95", aimMs: askedAimMs },
  analytics: { text: "all that its visitors looked at, p95", aimMs: askedAimMs },
  analytics90: { text: "what they looked at in 90 days, p95", aimMs: askedAimMs },
  series: { text: "days of a year of the installation, p95", aimMs: askedAimMs },
  stats: { text: "what the installation does now, p95", aimMs: askedAimMs },
  fold: { text: "a month of analytics is added up", aimMs: null },
  newHour: { text: "a batch of an edge that has something of 10,000 projects, the first of its hour", aimMs: null },
  sameHour: { text: "one of another edge, of the same hour", aimMs: null },
} as const;

/** What somebody waits for who looks at all figures of a project, among 10,000 with two years of days each. */
export async function figuresOfYears(): Promise<Row[]> {
  const script = join(repositoryRoot, "control", "src", "tenants", "metrics", "testing-bench.ts");
  const child = spawnProgram([nodeBinary(), script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the figures could not be measured"))),
  ])) as [string];
  const tookMs = JSON.parse(line) as Record<keyof typeof names, number[]>;
  return (Object.keys(names) as (keyof typeof names)[]).map((name) => {
    const { text, aimMs } = names[name];
    const aim = aimMs === null ? null : { text: `<= ${aimMs} ms`, met: (value: number) => value <= aimMs };
    return { name: text, unit: "ms", samples: [p95(tookMs[name])], floor: null, aim };
  });
}

const p95 = (samples: readonly number[]): number =>
  [...samples].sort((a, b) => a - b)[Math.floor(samples.length * 0.95)] ?? Number.NaN;
