import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { processorTime } from "../processor-time.ts";
import type { Bench } from "./bench.ts";
import type { Statements } from "./probe.ts";

/**
 * What a part of a row cost: on a machine that others use as well, times of the clock say more of them than of svc, and these
 * do not.
 */
export interface Costs {
  /** Of all processes of that kind, seconds. */
  processor: Readonly<Record<"control" | "Postgres" | "etcd" | "agents" | "load", number>>;
  statements: Statements;
}

async function processorSeconds({ stand, fleet }: Bench): Promise<Costs["processor"]> {
  const { platform } = stand;
  const of = async (...pids: readonly (number | null)[]) => {
    const times = await Promise.all(pids.map((pid) => processorTime(pid ?? 0)));
    return times.reduce((sum, { own, below }) => sum + own + below, 0) / 1e6;
  };
  const [control, postgres, etcd, agents, load] = await Promise.all([
    of(stand.controlPid()),
    of(platform.program("postgres").pid),
    of(platform.program("etcd").pid),
    of(...fleet.parts.map(({ pid }) => pid)),
    processorTime(process.pid).then(({ own }) => own / 1e6),
  ]);
  return { control, Postgres: postgres, etcd, agents, load };
}

/** Runs `work`, and tells what all processes spent on it, and what control asked of Postgres. */
export async function costsOf(bench: Bench, work: () => Promise<void>): Promise<Costs> {
  const before = await processorSeconds(bench);
  await bench.stand.probe.statements();
  await work();
  const statements = await bench.stand.probe.statements();
  const after = await processorSeconds(bench);
  const since = (of: keyof Costs["processor"]) => after[of] - before[of];
  const processor = {
    control: since("control"),
    Postgres: since("Postgres"),
    etcd: since("etcd"),
    agents: since("agents"),
    load: since("load"),
  };
  return { processor, statements };
}

export const statementsIn = ({ statements }: Costs): number => Object.values(statements).reduce((a, b) => a + b, 0);

/** One line for people: what each of `count` cost. */
export function describeCosts(costs: Costs, count: number): string {
  const times = Object.entries(costs.processor).map(
    ([name, seconds]) => `${name} ${((seconds * 1000) / count).toFixed(1)} ms`,
  );
  return `processor time each: ${times.join(", ")}; statements each: ${(statementsIn(costs) / count).toFixed(1)}`;
}

/** Next to the profiles, when there are any: every statement with how often it was sent for each of `count`, most often first. */
export async function writeStatements({ profileDir }: Bench, name: string, costs: Costs, count: number): Promise<void> {
  if (profileDir === null) return;
  const lines = Object.entries(costs.statements)
    .sort(([, a], [, b]) => b - a)
    .map(([text, times]) => `${(times / count).toFixed(2).padStart(8)}  ${text.replace(/\s+/g, " ")}`);
  await writeFile(join(profileDir, `${name}.statements.txt`), `${lines.join("\n")}\n`, { mode: 0o600 });
}
