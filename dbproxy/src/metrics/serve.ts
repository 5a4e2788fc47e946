import type { Clock } from "@svc/runtime/clock";
import { type OperatorsListener, type Pulse, startOperatorsListener } from "@svc/telemetry";
import type { Log } from "../log.ts";
import type { Metrics } from "./metrics.ts";

/** What decides whether apps are served. */
export interface Readiness {
  /** False while there is no table. */
  hasTable: boolean;
  /** False while an address to listen at is not there, or no certificate for other machines. */
  isListening: boolean;
}

/** Serves the metrics of this proxy, whether it lives, and whether it serves apps; also beside a process that is to take over. */
export function serveMetrics(
  clock: Clock,
  listen: { host: string; port: number },
  { metrics, pulse, readiness, log }: { metrics: Metrics; pulse: Pulse; readiness: () => Readiness; log: Log },
): Promise<OperatorsListener> {
  const view = {
    metrics: metrics.read,
    stuck: pulse.stuck,
    async unready() {
      const { hasTable, isListening } = readiness();
      if (!hasTable) return "there is no table yet";
      return isListening ? null : "it cannot listen at every address yet";
    },
  };
  return startOperatorsListener(clock, { ...listen, reusePort: true }, view, log);
}
