import { statfs } from "node:fs/promises";
import { Observed } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { type OperatorsListener, type Pulse, startOperatorsListener } from "@svc/telemetry";
import type { Engine } from "../engine/engine.ts";
import type { Journal } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import type { Placements } from "../placements/placements.ts";
import type { DiskWatch } from "../stats/disk.ts";
import type { MemoryWatch } from "../stats/memory.ts";
import type { StatusReporter } from "../status-reporter.ts";
import type { Metrics } from "./metrics.ts";

/** What is looked up at the moment of a reading, once the node knows who it is. */
export interface GaugeSources {
  dir: string;
  engine: Pick<Engine, "describe">;
  journal: Pick<Journal, "count">;
  placements: Pick<Placements, "statuses">;
  disk: Pick<DiskWatch, "isFull">;
  memory: Pick<MemoryWatch, "isShort">;
  reporter: Pick<StatusReporter, "backlog">;
}

const engineMs = 2_000;
const stateNames = new Map<number, string>(
  Object.entries(Observed).map(([name, value]) => [value, name.toLowerCase()]),
);

export function watchGauges(clock: Clock, metrics: Metrics, sources: GaugeSources): void {
  const { dir, engine, journal, placements, disk, memory, reporter } = sources;
  metrics.beforeReading(() => {
    metrics.placements.reset();
    for (const { observed } of placements.statuses()) {
      metrics.placements.inc({ state: stateNames.get(observed) ?? "unknown" });
    }
    for (const [table, rows] of Object.entries(journal.count())) metrics.journalRows.set({ table }, rows);
    metrics.diskFull.set(disk.isFull() ? 1 : 0);
    metrics.memoryShort.set(memory.isShort() ? 1 : 0);
    metrics.backlog.set(reporter.backlog());
  });
  const free = async (name: string, path: string): Promise<void> => {
    const { bavail, bsize } = await statfs(path);
    metrics.diskFree.set({ disk: name }, bavail * bsize);
  };
  metrics.beforeReading(() => free("state", dir));
  metrics.beforeReading(async () => {
    const described = await describeInTime(clock, engine);
    if (described !== null) await free("engine", described.rootDir);
  });
}

/** Serves the metrics of this agent, whether it lives, and whether it reaches control and its engine. */
export function serveMetrics(
  clock: Clock,
  listen: { host: string; port: number },
  { metrics, pulse, state, log }: { metrics: Metrics; pulse: Pulse; state: Readiness; log: Log },
): Promise<OperatorsListener> {
  const source = {
    metrics: metrics.read,
    stuck: pulse.stuck,
    async unready() {
      const engine = state.engine !== null && (await describeInTime(clock, state.engine)) !== null;
      const missing = [...(state.connected ? [] : ["control"]), ...(engine ? [] : ["the container engine"])];
      return missing.length === 0 ? null : `no answer of ${missing.join(" and ")}`;
    },
  };
  return startOperatorsListener(clock, listen, source, log);
}

/** What decides whether the agent can take work. */
export interface Readiness {
  connected: boolean;
  /** Null until the node knows who it is. */
  engine: Pick<Engine, "describe"> | null;
}

/** Null when there was no answer, or none in time. */
const describeInTime = (clock: Clock, engine: Pick<Engine, "describe">) =>
  within(
    clock,
    engineMs,
    engine.describe().catch(() => null),
    () => null,
  );
