import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectory, writeDurably } from "@svc/runtime/durable-file";
import type { Random } from "@svc/runtime/random";
import { z } from "zod";
import type { Log } from "../log.ts";
import { type LogPosition, logPosition } from "./access-log.ts";
import { addCount, type Count, type Counts } from "./counts.ts";

/** Counts under a number, as they are sent. */
export interface Batch {
  series: string;
  number: number;
  counts: Count[];
}

/** Counts that are on disk and not known to be with control. */
export interface BatchStore {
  /** How far the access log is in these counts; null when that is unknown, and what is there may be counted already. */
  position(): LogPosition | null;
  /**
   * Adds counts, together with the position up to which they go: on disk when it returns, or nothing of it. They join
   * the newest batch as long as that was not sent and has room.
   */
  keep(counts: Counts, position: LogPosition): Promise<void>;
  /** The oldest batch that is not acknowledged; it stays as it is from now on. Null when there is none. */
  next(): Promise<Batch | null>;
  /** Control has it. */
  acknowledge(number: number): Promise<void>;
}

/** One batch, in memory and as a message; some 100 bytes each. */
export const countsPerBatch = 10_000;
export interface BatchBounds {
  countsPerBatch: number;
  /** When control is away for so long that these are full, the oldest go. */
  batchesMax: number;
}

const boundsUsed: BatchBounds = { countsPerBatch, batchesMax: 64 };

const whole = z.int().min(0);
const count = z.object({
  projectId: z.string(),
  channel: z.string(),
  hour: whole,
  requests: whole,
  bytesIn: whole,
  bytesOut: whole,
  status2xx: whole,
  status3xx: whole,
  status4xx: whole,
  status5xx: whole,
  // What an earlier version kept does not say.
  unmetered: z.boolean().default(false),
});
const stored = z.object({
  format: z.literal(1),
  series: z.uuid(),
  position: logPosition,
  counts: z.array(count),
});
type Stored = z.infer<typeof stored>;

const fileName = /^(\d{16})\.json$/;

/**
 * A file per batch in `dir`, named by its number. The newest stays when it is acknowledged, because it says how far the
 * access log is counted; after a restart it is sent once more, and control knows it by its number.
 */
export async function openBatchStore(
  random: Random,
  dir: string,
  log: Log,
  bounds: BatchBounds = boundsUsed,
): Promise<BatchStore> {
  const { batchesMax } = bounds;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const pathOf = (number: number) => join(dir, `${String(number).padStart(16, "0")}.json`);
  /** Of the files, rising. */
  let numbers: number[] = [];
  for (const name of (await readdir(dir)).sort()) {
    const [, digits] = fileName.exec(name) ?? [];
    if (digits !== undefined) numbers.push(Number(digits));
    else if (name.endsWith(".tmp")) await rm(join(dir, name), { force: true });
  }
  const read = async (number: number): Promise<Stored> =>
    stored.parse(JSON.parse(await readFile(pathOf(number), "utf8")));

  let series = random.uuid();
  let position: LogPosition | null = [];
  const last = numbers.at(-1);
  if (last !== undefined) {
    try {
      ({ series, position } = await read(last));
    } catch (err) {
      log.error({ path: pathOf(last), err }, "kept traffic is damaged: a new series begins");
      position = null;
      await rename(pathOf(last), `${pathOf(last)}.damaged`);
      numbers.pop();
    }
  }
  /** May have been sent: never changed again. */
  let sentUpTo = last ?? 0;
  let acknowledged = 0;
  let newest = last ?? 0;
  /** Of the newest batch, while it may still grow. */
  let growing: Counts = new Map();

  async function write(number: number, counts: Counts, at: LogPosition): Promise<void> {
    const file: Stored = { format: 1, series, position: at, counts: [...counts.values()] };
    await writeDurably(pathOf(number), JSON.stringify(file));
  }

  async function remove(gone: (number: number) => boolean): Promise<void> {
    const doomed = numbers.filter(gone);
    if (doomed.length === 0) return;
    numbers = numbers.filter((number) => !gone(number));
    for (const number of doomed) await rm(pathOf(number), { force: true });
    await syncDirectory(dir);
  }

  return {
    position: () => position,
    async keep(counts, at) {
      const grows = newest > sentUpTo && growing.size + counts.size <= bounds.countsPerBatch;
      const next: Counts = new Map(grows ? [...growing].map(([key, each]) => [key, { ...each }]) : []);
      for (const each of counts.values()) addCount(next, { ...each });
      const number = grows ? newest : newest + 1;
      await write(number, next, at);
      growing = next;
      position = at;
      if (!grows) numbers.push(number);
      newest = number;
      await remove((each) => each <= acknowledged && each < newest);
      const oldest = numbers.at(-batchesMax);
      if (oldest === undefined || numbers.length <= batchesMax) return;
      log.error(
        { batches: numbers.length - batchesMax },
        "control was away for too long: the oldest traffic is dropped",
      );
      await remove((each) => each < oldest);
    },
    async next() {
      for (;;) {
        const number = numbers.find((each) => each > acknowledged);
        if (number === undefined) return null;
        sentUpTo = Math.max(sentUpTo, number);
        try {
          const { series: of, counts } = await read(number);
          if (counts.length > 0) return { series: of, number, counts };
          // It only says how far the access log was read.
          acknowledged = number;
        } catch (err) {
          log.error({ path: pathOf(number), err }, "a batch of traffic is damaged and dropped");
          await rename(pathOf(number), `${pathOf(number)}.damaged`).catch(() => {});
          numbers = numbers.filter((each) => each !== number);
        }
      }
    },
    async acknowledge(number) {
      acknowledged = Math.max(acknowledged, number);
      await remove((each) => each <= acknowledged && each < newest);
    },
  };
}
