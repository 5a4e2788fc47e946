import type { Random } from "../random.ts";

/** Chance that gives the same fraction each time, and ids that count up: `00000000-0000-4000-8000-000000000001`. */
export function fixedRandom(fraction = 0.5): Random {
  let count = 0;
  return {
    next: () => fraction,
    uuid() {
      count += 1;
      return `00000000-0000-4000-8000-${String(count).padStart(12, "0")}`;
    },
  };
}

/** Numbers from 0 to below 1, the same ones for the same seed. */
export function seededNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
