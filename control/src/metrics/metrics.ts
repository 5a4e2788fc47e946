import { collectDefaultMetrics, Registry } from "prom-client";
import { createInstruments, type Instruments } from "./instruments.ts";

/** What this process counts, and what is measured when somebody asks. */
export interface Metrics extends Instruments {
  readonly registry: Registry;
  /** `refresh` sets gauges before each reading; it must end soon and never throws further than here. */
  beforeReading(refresh: () => Promise<void> | void): void;
  /** Everything in the text format of Prometheus. */
  read(): Promise<string>;
}

/** Fine enough for lags that matter, and no timer that keeps an idle process awake. */
const lagPrecisionMs = 100;

/** @param options.process whether to measure the process as well: memory, processor, lag of its event loop */
export function createMetrics(options: { process?: boolean } = {}): Metrics {
  const registry = new Registry();
  const refreshers: (() => Promise<void> | void)[] = [];
  if (options.process) collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagPrecisionMs });
  return {
    ...createInstruments(registry),
    registry,
    beforeReading: (refresh) => void refreshers.push(refresh),
    async read() {
      await Promise.allSettled(refreshers.map(async (refresh) => refresh()));
      return registry.metrics();
    },
  };
}
