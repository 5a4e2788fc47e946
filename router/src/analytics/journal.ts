import { type FileHandle, open } from "node:fs/promises";
import { decodeUniques, encodeUniques } from "@svc/proto/uniques";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import { type LogPosition, logPosition } from "../traffic/access-log.ts";
import { dimensions, type Sketch } from "./sketch.ts";
import type { TopValues } from "./top-values.ts";

/** Sketches on disk, as they were at some place in the access log. */
export interface Journal extends AsyncDisposable {
  /** Puts down what changed up to `position`; the rest is as before. */
  append(position: LogPosition, changed: readonly Sketch[], gone: readonly string[]): Promise<void>;
  /** Whether much of it is of no use any more. */
  isLong(): boolean;
  /** Replaces all of it. */
  rewrite(position: LogPosition, sketches: Iterable<Sketch>): Promise<void>;
}

const whole = z.int().min(0);
const list = z.array(z.tuple([z.string(), whole, whole]));
const storedSketch = z.object({
  series: z.uuid(),
  seq: whole,
  projectId: z.string(),
  channel: z.string(),
  hour: whole,
  sampled: z.boolean(),
  statuses: z.tuple([whole, whole, whole, whole]),
  lists: z.object(Object.fromEntries(dimensions.map((dimension) => [dimension, list])) as PerDimension<typeof list>),
  visitors: z.base64(),
});
type PerDimension<T> = Record<(typeof dimensions)[number], T>;
const record = z.object({ position: logPosition, changed: z.array(storedSketch), gone: z.array(z.string()) });

const mb = 1024 * 1024;
/** Beyond this, and several times what is of use. */
const longBytes = 4 * mb;
const longTimes = 4;
/** It is read as one text, which can have twice as many: a longer one could not be opened again. */
const mostBytes = 256 * mb;

/** Whether a journal of so many bytes is to be replaced by what is of use of it. */
export const isLong = (bytes: number, usefulBytes: number): boolean =>
  bytes > longBytes + longTimes * usefulBytes || bytes > Math.max(mostBytes, usefulBytes + longBytes);

/**
 * One line per round. What a round put down counts only together with the counts of the same round: the last line
 * is passed over when it goes to another place in the log than `position`, which is then read from again.
 *
 * @param position up to where the log is counted for good; null when nobody knows
 */
export async function openJournal(
  path: string,
  position: LogPosition | null,
): Promise<{ journal: Journal; sketches: Sketch[] }> {
  const sketches = replay((await readIfThere(path)) ?? "", position);
  let file: FileHandle | null = null;
  let bytes = 0;
  let usefulBytes = 0;

  async function rewrite(at: LogPosition, all: Iterable<Sketch>): Promise<void> {
    await file?.close();
    file = null;
    const line = lineOf(at, [...all], []);
    await writeDurably(path, line);
    file = await open(path, "a", 0o600);
    usefulBytes = Buffer.byteLength(line);
    bytes = usefulBytes;
  }
  // Whatever the end of an earlier process left there goes.
  await rewrite(position ?? [], sketches);

  return {
    sketches,
    journal: {
      async append(at, changed, gone) {
        if (file === null) throw new Error("the journal of analytics is not open");
        const line = lineOf(at, changed, gone);
        await file.appendFile(line);
        await file.datasync();
        bytes += Buffer.byteLength(line);
      },
      isLong: () => isLong(bytes, usefulBytes),
      rewrite,
      async [Symbol.asyncDispose]() {
        await file?.close();
        file = null;
      },
    },
  };
}

/** Up to the first line that is damaged. */
export function replay(text: string, position: LogPosition | null): Sketch[] {
  const sketches = new Map<string, Sketch>();
  const records = recordsOf(text);
  const last = records.at(-1);
  const isSettled = position === null || JSON.stringify(last?.position) === JSON.stringify(position);
  for (const { changed, gone } of isSettled ? records : records.slice(0, -1)) {
    for (const series of gone) sketches.delete(series);
    for (const each of changed) sketches.set(each.series, each);
  }
  return [...sketches.values()];
}

interface Round {
  position: LogPosition;
  changed: Sketch[];
  gone: string[];
}

function recordsOf(text: string): Round[] {
  const rounds: Round[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    try {
      const { position, changed, gone } = record.parse(JSON.parse(line));
      rounds.push({ position, changed: changed.map(sketchOf), gone });
    } catch {
      break;
    }
  }
  return rounds;
}

const lineOf = (position: LogPosition, changed: readonly Sketch[], gone: readonly string[]): string =>
  `${JSON.stringify({ position, changed: changed.map(storedOf), gone: [...gone] } satisfies z.infer<typeof record>)}\n`;

function storedOf(sketch: Sketch): z.infer<typeof storedSketch> {
  const { lists, visitors, ...rest } = sketch;
  const texts = dimensions.map((dimension) => [
    dimension,
    [...lists[dimension]].map(([value, { count, inherited }]) => [value, count, inherited]),
  ]);
  return {
    ...rest,
    lists: Object.fromEntries(texts),
    visitors: Buffer.from(encodeUniques(visitors)).toString("base64"),
  };
}

function sketchOf({ lists, visitors, ...rest }: z.infer<typeof storedSketch>): Sketch {
  const uniques = decodeUniques(Buffer.from(visitors, "base64"));
  if (uniques === null) throw new Error("visitors that nobody counted");
  const values = dimensions.map((dimension): [string, TopValues] => [
    dimension,
    new Map(lists[dimension].map(([value, count, inherited]) => [value, { count, inherited }])),
  ]);
  return { ...rest, lists: Object.fromEntries(values) as Sketch["lists"], visitors: uniques };
}
