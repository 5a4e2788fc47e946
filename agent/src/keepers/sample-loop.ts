import type { CopySample } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import type { Engine } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import type { Machine } from "../node/machine.ts";
import { isTerminal } from "../placements/view.ts";
import { copySample, isNews } from "./samples.ts";

/** A move waits for what a copy has, and nobody can write meanwhile. */
const lookEveryMs = 1_000;
/** In looks of a keeper, as long as one is by itself: all of them, and what they take. */
const [tellEveryLooks, keeperLooksMs] = [30, 2_000];

/** Tells how far the copies of this node are until `signal` aborts. A report that fails is made up for by the next. */
export async function copySampleLoop(options: {
  clock: Clock;
  engine: Pick<Engine, "listDatabaseVolumes">;
  machine: Pick<Machine, "findCopyStatus" | "measureVolume">;
  list(): PlacementRecord[];
  /** How often keepers look around; null: as often as they do by themselves. */
  copyLookMs: number | null;
  report(samples: CopySample[]): Promise<void>;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, engine, machine, signal, log } = options;
  const tellEveryMs = tellEveryLooks * (options.copyLookMs ?? keeperLooksMs);
  const told = new Map<string, CopySample>();
  let sizes = new Map<string, number>();
  let paths = new Map<string, string>();
  let toldAllMs = Number.NEGATIVE_INFINITY;

  /** One volume after the other: the disk is the servers' first. */
  const measure = async (copyIds: readonly string[]): Promise<void> => {
    const volumes = (await engine.listDatabaseVolumes()).filter(({ of }) => of === "copy");
    paths = new Map(volumes.map(({ id, path }) => [id, path]));
    const measured = new Map<string, number>();
    for (const id of copyIds) {
      const path = paths.get(id);
      if (path !== undefined) measured.set(id, await machine.measureVolume(path).catch(() => sizes.get(id) ?? 0));
    }
    sizes = measured;
  };

  const look = async (): Promise<void> => {
    const copyIds = keptCopies(options.list());
    for (const id of told.keys()) if (!copyIds.includes(id)) told.delete(id);
    const isTime = clock.steadyMs() - toldAllMs >= tellEveryMs;
    if (copyIds.length === 0) return;
    if (isTime || copyIds.some((id) => !paths.has(id))) await measure(copyIds);
    const at = clock.now().toISOString();
    const samples: CopySample[] = [];
    for (const id of copyIds) {
      const path = paths.get(id);
      const status = path === undefined ? null : await machine.findCopyStatus(path);
      if (status === null) continue;
      const sample = copySample(id, status, { at, bytes: sizes.get(id) ?? 0 });
      if (isTime || isNews(told.get(id), sample)) samples.push(sample);
    }
    if (samples.length > 0) await options.report(samples);
    for (const sample of samples) told.set(sample.copyId, sample);
    if (isTime) toldAllMs = clock.steadyMs();
  };

  while (!signal.aborted) {
    try {
      await sleep(clock, lookEveryMs, signal);
      await look();
    } catch (cause) {
      if (!signal.aborted) log.debug({ reason: String(cause) }, "samples of copies were dropped");
    }
  }
}

/** Copies that placements of this node keep. */
const keptCopies = (records: readonly PlacementRecord[]): string[] => [
  ...new Set(
    records.flatMap(({ placement: { spec }, status }) =>
      spec.case === "keeper" && !isTerminal(status.observed) ? [spec.value.copyId] : [],
    ),
  ),
];
