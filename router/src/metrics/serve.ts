import type { Clock } from "@svc/runtime/clock";
import { type OperatorsListener, type Pulse, startOperatorsListener } from "@svc/telemetry";
import type { Applier } from "../apply.ts";
import type { CaddyAdmin } from "../caddy.ts";
import type { Certificates } from "../certificates/certificates.ts";
import type { Log } from "../log.ts";
import type { Traffic } from "../traffic/traffic.ts";
import { valueOfMetric } from "./caddy-text.ts";
import { setCertificates } from "./certificates.ts";
import type { Metrics } from "./metrics.ts";

export interface GaugeSources {
  applier: Pick<Applier, "state" | "routes">;
  traffic: Pick<Traffic, "unreadBytes">;
  certificates: Pick<Certificates, "ends">;
}

/** Sets what can be looked up at the moment of a reading. */
export function watchGauges(metrics: Metrics, clock: Clock, { applier, traffic, certificates }: GaugeSources): void {
  metrics.beforeReading(() => {
    const { generation, behindHosts } = applier.state();
    metrics.tableGeneration.set(Number(generation));
    metrics.hosts.set(applier.routes().size);
    metrics.hostsBehind.set(behindHosts.length);
  });
  metrics.beforeReading(() => setCertificates(metrics, certificates.ends(), clock.now()));
  metrics.beforeReading(async () => metrics.logUnread.set(await traffic.unreadBytes()));
}

/** Sets what Caddy tells of itself, at the moment of a reading. It tells nothing of handshakes. */
export function watchCaddy(metrics: Metrics, admin: Pick<CaddyAdmin, "metrics">): void {
  const gauges = [
    { gauge: metrics.caddyOpenFiles, name: "process_open_fds" },
    { gauge: metrics.caddyMemory, name: "process_resident_memory_bytes" },
    { gauge: metrics.caddyCpu, name: "process_cpu_seconds_total" },
    { gauge: metrics.caddyGoroutines, name: "go_goroutines" },
  ];
  metrics.beforeReading(async () => {
    const text = await admin.metrics().catch(() => null);
    metrics.caddyUp.set(text === null ? 0 : 1);
    for (const { gauge, name } of gauges) {
      const value = text === null ? null : valueOfMetric(text, name);
      if (value === null) gauge.reset();
      else gauge.set(value);
    }
  });
}

/** The same administration, with what fails counted. */
export function countAdmin(admin: CaddyAdmin, metrics: Metrics): CaddyAdmin {
  const counted = async <T>(call: "config" | "load", work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (cause) {
      metrics.caddyErrors.inc({ call });
      throw cause;
    }
  };
  return {
    config: () => counted("config", admin.config()),
    metrics: () => admin.metrics(),
    load: (config) => counted("load", admin.load(config)),
  };
}

/** What decides whether visitors are served. */
export interface Readiness {
  caddyConfigured: boolean;
}

/** Serves the metrics of this router, whether it lives, and whether it serves visitors. Control may be away for that. */
export function serveMetrics(
  clock: Clock,
  listen: { host: string; port: number },
  {
    metrics,
    pulse,
    applier,
    state,
    log,
  }: { metrics: Metrics; pulse: Pulse; state: Readiness; log: Log } & Pick<GaugeSources, "applier">,
): Promise<OperatorsListener> {
  const source = {
    metrics: metrics.read,
    stuck: pulse.stuck,
    async unready() {
      if (!state.caddyConfigured) return "Caddy does not have its configuration";
      return applier.state().digest === "" ? "there is no route table yet" : null;
    },
  };
  return startOperatorsListener(clock, listen, source, log);
}
