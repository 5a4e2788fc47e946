import { create } from "@bufbuild/protobuf";
import { Observed, type Sample, SampleSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import type { Engine } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import { hasContainer } from "../placements/kinds/index.ts";
import { containerName } from "../placements/names.ts";

const sampleEveryMs = 15_000;
const atOnce = 4;

/** Samples every running container until `signal` aborts. A report that fails is dropped: the next one is near. */
export async function sampleLoop(options: {
  clock: Clock;
  engine: Engine;
  list(): PlacementRecord[];
  report(samples: Sample[]): Promise<void>;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, signal, log } = options;
  while (!signal.aborted) {
    try {
      await sleep(clock, sampleEveryMs, signal);
      const samples = await sampleAll(clock, options.engine, options.list());
      if (samples.length > 0) await options.report(samples);
    } catch (cause) {
      if (!signal.aborted) log.debug({ reason: String(cause) }, "samples were dropped");
    }
  }
}

async function sampleAll(clock: Clock, engine: Engine, records: readonly PlacementRecord[]): Promise<Sample[]> {
  const running = records.filter(
    ({ placement, status }) => hasContainer(placement) && status.observed === Observed.RUNNING,
  );
  const samples: Sample[] = [];
  for (let start = 0; start < running.length; start += atOnce) {
    const batch = running.slice(start, start + atOnce);
    const read = await Promise.all(batch.map(({ placement }) => sampleOne(clock, engine, placement.placementId)));
    samples.push(...read.filter((sample) => sample !== null));
  }
  return samples;
}

async function sampleOne(clock: Clock, engine: Engine, placementId: string): Promise<Sample | null> {
  const sample = await engine.sample(containerName(placementId));
  if (sample === null) return null;
  const { cpuPercent, memoryBytes, pids } = sample;
  return create(SampleSchema, {
    placementId,
    at: clock.now().toISOString(),
    cpuPercent,
    memoryBytes: BigInt(memoryBytes),
    pids,
  });
}
