import { createMeter } from "@svc/telemetry";

const prefix = "svc_router_";
const quickSeconds = [0.002, 0.01, 0.05, 0.2, 1, 5, 15];
/** Of what visitors wait for: answers of a moment, and streams. */
const visitSeconds = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 300];
const applySeconds = [0.002, 0.01, 0.05, 0.2, 1, 5, 30];

/** What this router counts, and what is measured when somebody asks. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Labels are words of a fixed list: never a host, a project, or anything that a visitor or a tenant wrote.
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
    tableGeneration: gauge("table_generation", "Generation of the table in force; 0 when it is not known as a whole"),
    hosts: gauge("hosts", "Hosts that are served"),
    hostsBehind: gauge("hosts_behind", "Hosts that keep an older route, at most 1000 of them"),
    applySeconds: histogram("table_apply_seconds", "Until a table is in force and on disk", { buckets: applySeconds }),
    applyErrors: counter("table_apply_errors_total", "Tables that could not be kept, and are tried again"),
    tablesRefused: counter("tables_refused_total", "Tables of control that were not accepted"),
    bundleFetches: counter("bundle_fetches_total", "Attempts at fetching the files of a static site: ok or failed", [
      "outcome",
    ]),
    bundleBytes: counter("bundle_bytes_total", "Bytes that such fetches read from the registry"),
    caddyErrors: counter("caddy_admin_errors_total", "Calls to Caddy's administration that failed", ["call"]),
    logUnread: gauge("access_log_unread_bytes", "What Caddy has logged and nobody has counted yet"),
    requests: counter("requests_total", "Requests of visitors that were counted, by status", ["status"]),
    requestSeconds: histogram(
      "request_seconds",
      "From a visitor's request to the end of its answer, streams included",
      {
        buckets: visitSeconds,
      },
    ),
    requestsUnknown: counter("requests_unattributed_total", "Lines of Caddy's log that belong to no site"),
    handshakes: counter("tls_handshakes_total", "Full TLS handshakes with a certificate that control sent"),
    certificates: gauge("certificates", "Certificates that are served, by how long they are still good", ["left"]),
    caddyUp: gauge("caddy_up", "1 while Caddy answers, else 0"),
    caddyOpenFiles: gauge("caddy_open_files", "What Caddy has open: connections of visitors and to sites, and files"),
    caddyMemory: gauge("caddy_memory_bytes", "Memory of Caddy"),
    caddyCpu: gauge("caddy_cpu_seconds", "Processor time of Caddy since it started"),
    caddyGoroutines: gauge("caddy_goroutines", "Goroutines of Caddy: some for each request and stream that is open"),

    beforeReading: meter.beforeReading,
    read: meter.read,
  };
}
