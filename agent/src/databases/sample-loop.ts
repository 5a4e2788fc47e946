import { databaseVolume } from "@svc/proto";
import type { DatabaseSample } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import type { Engine } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import { servingInstances } from "./instances.ts";
import type { ProxyDir } from "./proxy-dir.ts";
import { databaseSamples, type Instance } from "./samples.ts";
import { measureVolume } from "./volume-size.ts";

export const databaseSampleEveryMs = 60_000;

/** Tells of the databases of this node until `signal` aborts. A report that fails is dropped: the next one is near. */
export async function databaseSampleLoop(options: {
  clock: Clock;
  engine: Pick<Engine, "listDatabaseVolumes">;
  list(): PlacementRecord[];
  dir: Pick<ProxyDir, "readState">;
  report(samples: DatabaseSample[]): Promise<void>;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, engine, dir, signal, log } = options;
  while (!signal.aborted) {
    try {
      await sleep(clock, databaseSampleEveryMs, signal);
      const instances = await measure(engine, options.list());
      const samples = databaseSamples(instances, await dir.readState(), clock.now().toISOString());
      if (samples.length > 0) await options.report(samples);
    } catch (cause) {
      if (!signal.aborted) log.debug({ reason: String(cause) }, "samples of databases were dropped");
    }
  }
}

/** One volume after the other: the disk is the servers' first. */
async function measure(
  engine: Pick<Engine, "listDatabaseVolumes">,
  records: readonly PlacementRecord[],
): Promise<Instance[]> {
  const serving = servingInstances(records);
  const volumes = serving.length === 0 ? [] : await engine.listDatabaseVolumes();
  const instances: Instance[] = [];
  for (const { databaseId, epoch, generation } of serving) {
    const path = volumes.find(({ name }) => name === databaseVolume(databaseId, generation))?.path;
    const volumeBytes =
      path === undefined
        ? null
        : await measureVolume(path).then(
            (bytes) => bytes || null,
            () => null,
          );
    instances.push({ databaseId, epoch, volumeBytes });
  }
  return instances;
}
