import { createMeter } from "@svc/telemetry";

const prefix = "svc_agent_";
const quickSeconds = [0.002, 0.01, 0.05, 0.2, 1, 5, 15];
const callSeconds = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

/** What this agent counts, and what is measured when somebody asks. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Labels are words of a fixed list: never an id, a name, or anything that a tenant wrote.
 *
 * @param options.process whether to measure the process as well: memory, processor, lag of its event loop
 */
export function createMetrics(options: { process?: boolean } = {}) {
  const meter = createMeter(prefix, options);
  const { counter, gauge, histogram } = meter;
  return {
    registry: meter.registry,
    connected: gauge("connected", "1 while there is a session with control, else 0"),
    sessions: counter("sessions_total", "Sessions with control; all but the first are reconnections"),
    renewSeconds: histogram("renew_seconds", "From a renewal of the lease to control's answer", {
      buckets: quickSeconds,
    }),
    placements: gauge("placements", "Placements that the node holds, by how they are", ["state"]),
    restarts: counter("container_restarts_total", "Containers that ended by themselves and were started again"),
    builds: counter("builds_total", "Builds that came to their end: completed or failed", ["outcome"]),
    runs: counter("runs_total", "Runs that must not happen twice and came to their end, by what is known of them", [
      "outcome",
    ]),
    pulls: counter("pulls_total", "Images that were pulled: ok or failed", ["outcome"]),
    engineSeconds: histogram("engine_call_seconds", "One call to the container engine; builds and pulls are whole", {
      buckets: callSeconds,
      labelNames: ["call"],
    }),
    engineErrors: counter(
      "engine_call_errors_total",
      "Calls to the container engine that failed: stalled is one without an answer in time",
      ["call", "kind"],
    ),
    diskFree: gauge("disk_free_bytes", "Free space where the agent keeps its state, and where the engine does", [
      "disk",
    ]),
    diskFull: gauge("disk_full", "1 while too little disk space is free for new work, else 0"),
    memoryShort: gauge("memory_short", "1 while too little memory is really left for new work, else 0"),
    journalRows: gauge("journal_rows", "Rows of the journal", ["table"]),
    backlog: gauge("reporter_backlog", "Placements whose newest status control has not acknowledged"),

    beforeReading: meter.beforeReading,
    read: meter.read,
  };
}
