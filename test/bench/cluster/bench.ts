import { join } from "node:path";
import type { Daemons, Fleet } from "./daemons.ts";
import type { Measurement } from "./measure.ts";
import type { Sessions } from "./sessions.ts";
import type { Stand } from "./stand.ts";

/** What the rows are measured with: a stand with agents and edges connected to it. */
export interface Bench {
  stand: Stand;
  /** All agents. */
  fleet: Fleet;
  nodeIds: readonly string[];
  /** A process of its own with a few of the agents, for what must not happen to all. */
  few: Daemons;
  fewIds: readonly string[];
  edges: Daemons;
  sessions: Sessions;
  /** Fewer and shorter runs: to see that it works, not to measure. */
  quick: boolean;
  /** Deployments per second of row 3. */
  rate: number;
  report(measurement: Measurement): void;
  log(line: string): void;
  /** Where processor profiles of control go; null for none. */
  profileDir: string | null;
}

export const agentsOf = ({ nodeIds }: Pick<Bench, "nodeIds">): string =>
  `${nodeIds.length.toLocaleString("en-US")} agents`;

/** Runs one part of a row under control's profiler, when one is asked for. */
export async function profiled<T>({ stand, profileDir }: Bench, name: string, work: () => Promise<T>): Promise<T> {
  if (profileDir === null) return work();
  await stand.probe.startProfile();
  try {
    return await work();
  } finally {
    await stand.probe.stopProfile(join(profileDir, `${name}.cpuprofile`)).catch(() => {});
  }
}
