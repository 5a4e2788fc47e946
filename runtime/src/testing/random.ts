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
