import type { Random } from "@svc/runtime/random";
import { addPageView, addStatus, newSketch, type PageView, type Sketch, valuesOf } from "./sketch.ts";

/** All sketches that control does not have for good. */
export interface Sketches {
  /** @param view null for a request that is no page view */
  add(of: Pick<Sketch, "projectId" | "channel" | "hour">, status: number, view: PageView | null): void;
  /** That something was added to since the last call. */
  takeChanged(): Sketch[];
  /** Control has the sketch as it was at `seq`. */
  acknowledge(series: string, seq: number): void;
  /** What control does not have, at most so many, the oldest hours first. */
  unsent(max: number): Sketch[];
  /** Forgets what control has and is of earlier hours, and what is beyond all bounds: which these were. */
  forget(): { done: string[]; dropped: string[] };
  all(): Iterable<Sketch>;
  /** Of all lists together. */
  values(): number;
}

export interface SketchBounds {
  sketchesMax: number;
  /** From so many values on, lists that have few get no more. Some 300 bytes each, and 400 where they are as long as they may be. */
  valuesMax: number;
}

/**
 * When all of it is used, 160 MB of values, and 4 KB of visitors per sketch, up to 16 KB while they are few enough to be known
 * exactly: half a gigabyte at the very worst. It takes thousands of sites that somebody fills with inventions, and control away
 * for days.
 */
const boundsUsed: SketchBounds = { sketchesMax: 20_000, valuesMax: 400_000 };

const keyOf = ({ projectId, channel, hour }: Pick<Sketch, "projectId" | "channel" | "hour">): string =>
  `${hour} ${channel} ${projectId}`;

export function createSketches(random: Random, kept: Iterable<Sketch>, bounds: SketchBounds = boundsUsed): Sketches {
  const known = new Map([...kept].map((sketch) => [keyOf(sketch), sketch]));
  const bySeries = new Map([...known.values()].map((sketch) => [sketch.series, sketch]));
  const acknowledged = new WeakMap<Sketch, number>();
  let changed = new Set<Sketch>();
  let values = 0;
  let newestHour = 0;
  for (const sketch of known.values()) {
    values += valuesOf(sketch);
    newestHour = Math.max(newestHour, sketch.hour);
  }

  const isDone = (sketch: Sketch): boolean => acknowledged.get(sketch) === sketch.seq;
  function remove(sketch: Sketch): string {
    known.delete(keyOf(sketch));
    bySeries.delete(sketch.series);
    values -= valuesOf(sketch);
    return sketch.series;
  }
  const oldestFirst = (): Sketch[] => [...known.values()].sort((a, b) => a.hour - b.hour);

  return {
    add(of, status, view) {
      const key = keyOf(of);
      let sketch = known.get(key);
      if (sketch === undefined) {
        // Whoever comes back to an hour that is forgotten begins another one beside it.
        sketch = newSketch(random.uuid(), of);
        known.set(key, sketch);
        bySeries.set(sketch.series, sketch);
        newestHour = Math.max(newestHour, of.hour);
      }
      if (!changed.has(sketch)) {
        changed.add(sketch);
        sketch.seq += 1;
      }
      addStatus(sketch, status);
      if (view !== null) values += addPageView(sketch, view, values >= bounds.valuesMax);
    },
    takeChanged() {
      const taken = [...changed];
      changed = new Set();
      return taken;
    },
    acknowledge(series, seq) {
      const sketch = bySeries.get(series);
      if (sketch !== undefined) acknowledged.set(sketch, Math.max(seq, acknowledged.get(sketch) ?? 0));
    },
    unsent(max) {
      return oldestFirst()
        .filter((sketch) => !isDone(sketch))
        .slice(0, max);
    },
    forget() {
      const done = [...known.values()].filter((sketch) => sketch.hour < newestHour && isDone(sketch)).map(remove);
      const surplus = known.size - bounds.sketchesMax;
      const dropped = surplus > 0 ? oldestFirst().slice(0, surplus).map(remove) : [];
      return { done, dropped };
    },
    all: () => known.values(),
    values: () => values,
  };
}
