/** Chance that is the same for the same seed: a generator of its own for everything that must not disturb others. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number;
  /** From `low` up to `high`. */
  between(low: number, high: number): number;
  /** True with the probability. */
  chance(probability: number): boolean;
  /** One of `of`, which must not be empty. */
  pick<T>(of: readonly T[]): T;
  /** Another generator, the same for the same name. */
  fork(name: string): Random;
}

/** A 32-bit number that tells texts apart. */
export function hashText(text: string, start = 0x811c9dc5): number {
  let hash = start;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

/** @param seed any whole number */
export function createRandom(seed: number): Random {
  let a = (seed ^ 0x9e3779b9) >>> 0;
  const start = a;
  // mulberry32: small, fast, and good enough to draw faults with.
  const next = (): number => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    int: (low, high) => low + Math.floor(next() * (high - low + 1)),
    between: (low, high) => low + next() * (high - low),
    chance: (probability) => next() < probability,
    pick: <T>(of: readonly T[]): T => {
      const found = of[Math.floor(next() * of.length)];
      if (found === undefined) throw new Error("nothing to pick from");
      return found;
    },
    fork: (name) => createRandom(hashText(name, start)),
  };
}

/** One of a list, by any number; undefined: it is empty. */
export const at = <T>(of: readonly T[], index: number): T | undefined => of[index % Math.max(of.length, 1)];
