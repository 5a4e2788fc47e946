import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Metrics of one program: makes them, and reads them all. */
export type Meter = ReturnType<typeof createMeter>;

/** Fine enough for lags that matter, and no timer that keeps an idle process awake. */
const lagPrecisionMs = 100;

/**
 * @param prefix of every name
 * @param options.process whether to measure the process as well: memory, processor, lag of its event loop
 */
export function createMeter(prefix: string, options: { process?: boolean } = {}) {
  const registry = new Registry();
  const refreshers: (() => Promise<void> | void)[] = [];
  if (options.process) collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagPrecisionMs });
  const named = <L extends string>(name: string, help: string, labelNames: readonly L[]) => ({
    name: `${prefix}${name}`,
    help,
    labelNames,
    registers: [registry],
  });
  return {
    registry,
    counter: <const L extends string = never>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Counter(named(name, help, labelNames)),
    gauge: <const L extends string = never>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Gauge(named(name, help, labelNames)),
    /** `buckets`: upper bounds in seconds. */
    histogram: <const L extends string = never>(
      name: string,
      help: string,
      { buckets, labelNames = [] }: { buckets: number[]; labelNames?: readonly L[] },
    ) => new Histogram({ ...named(name, help, labelNames), buckets }),
    /** `refresh` sets gauges before each reading; it must end soon and never throws further than here. */
    beforeReading: (refresh: () => Promise<void> | void): void => void refreshers.push(refresh),
    /** Everything in the text format of Prometheus. */
    async read(): Promise<string> {
      await Promise.allSettled(refreshers.map(async (refresh) => refresh()));
      return registry.metrics();
    },
  };
}
