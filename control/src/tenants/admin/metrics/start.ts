import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { type OperatorsListener, type Pulse, startOperatorsListener } from "@svc/telemetry";
import { sql } from "kysely";
import type { Log } from "../../../log.ts";
import type { Metrics } from "../../../metrics/metrics.ts";
import type { ListenAddress } from "../../../settings/settings.ts";
import type { EtcdObserver } from "../../../stores/etcd/index.ts";
import { type GaugeSources, watchGauges } from "./gauges.ts";

const storeMs = 3_000;

/** Counts what the client of etcd does. */
export const countEtcd = (metrics: Metrics): EtcdObserver => ({
  called(call, durationMs, code) {
    metrics.etcdSeconds.observe({ call }, durationMs / 1000);
    if (code !== null) metrics.etcdErrors.inc({ call, code });
  },
  watchEnded: () => metrics.etcdWatchRestarts.inc(),
});

/** Counts the rounds of one of the leader's loops. */
export const countRounds = (metrics: Metrics, loop: string) => (durationMs: number, outcome: "ok" | "failed") => {
  metrics.loopRounds.inc({ loop, outcome });
  metrics.loopSeconds.observe({ loop }, durationMs / 1000);
};

/** This replica leads, until that is disposed. */
export function countLeadership(metrics: Metrics | undefined): Disposable {
  metrics?.leaderships.inc();
  metrics?.leader.set(1);
  return { [Symbol.dispose]: () => metrics?.leader.set(0) };
}

/** Serves the metrics of this replica, whether it lives, and whether it reaches its stores. */
export function serveMetrics(
  listen: ListenAddress,
  { metrics, pulse, log, ...sources }: GaugeSources & { metrics: Metrics; pulse: Pulse; log: Log },
): Promise<OperatorsListener> {
  watchGauges(metrics, sources);
  const { clock, db, etcd } = sources;
  const source = {
    metrics: metrics.read,
    stuck: pulse.stuck,
    async unready() {
      const [postgres, store] = await Promise.all([
        answers(clock, () => sql`select 1`.execute(db)),
        answers(clock, () => etcd.get("/svc/ready")),
      ]);
      const missing = [...(postgres ? [] : ["Postgres"]), ...(store ? [] : ["etcd"])];
      return missing.length === 0 ? null : `no answer of ${missing.join(" and ")}`;
    },
  };
  return startOperatorsListener(clock, listen, source, log);
}

function answers(clock: Clock, ask: () => Promise<unknown>): Promise<boolean> {
  const asked = ask().then(
    () => true,
    () => false,
  );
  return within(clock, storeMs, asked, () => false);
}
