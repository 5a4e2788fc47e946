import { createMeter } from "@svc/telemetry";
import type { Registry } from "prom-client";
import { createInstruments, type Instruments } from "./instruments.ts";

/** What this process counts, and what is measured when somebody asks. */
export interface Metrics extends Instruments {
  readonly registry: Registry;
  /** `refresh` sets gauges before each reading; it must end soon and never throws further than here. */
  beforeReading(refresh: () => Promise<void> | void): void;
  /** Everything in the text format of Prometheus. */
  read(): Promise<string>;
}

/** @param options.process whether to measure the process as well: memory, processor, lag of its event loop */
export function createMetrics(options: { process?: boolean } = {}): Metrics {
  const meter = createMeter("svc_control_", options);
  const { registry, beforeReading, read } = meter;
  return { ...createInstruments(meter), registry, beforeReading, read };
}
