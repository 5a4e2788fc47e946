import { type Simulated, simulate } from "./simulate.ts";

export interface Shrunk {
  /** Indexes of the deeds that are needed. */
  keep: number[];
  of: number;
  tries: number;
  /** Those deeds, for people. */
  lines: string[];
}

const triesMax = 400;

/** The fewest deeds with which a seed still violates the same invariant (delta debugging: no single one can be left out). */
export async function shrink({ seed, mutant, plan, violation }: Simulated): Promise<Shrunk> {
  const of = plan.deeds.length;
  let tries = 0;
  const fails = async (keep: readonly number[]): Promise<boolean> => {
    tries += 1;
    try {
      return (await simulate({ seed, mutant, keep })).violation?.invariant === violation?.invariant;
    } catch {
      return false;
    }
  };
  let keep = plan.deeds.map((_, index) => index);
  let parts = 2;
  while (keep.length > 1 && tries < triesMax) {
    const size = Math.ceil(keep.length / parts);
    let isSmaller = false;
    for (let at = 0; at < keep.length && tries < triesMax; at += size) {
      const without = [...keep.slice(0, at), ...keep.slice(at + size)];
      if (!(await fails(without))) continue;
      keep = without;
      parts = Math.max(parts - 1, 2);
      isSmaller = true;
      break;
    }
    if (isSmaller) continue;
    if (size === 1) break;
    parts = Math.min(parts * 2, keep.length);
  }
  if (keep.length === 1 && (await fails([]))) keep = [];
  const lines = keep.flatMap((index) => {
    const deed = plan.deeds[index];
    return deed === undefined
      ? []
      : [
          `#${index} at ${(deed.atMs / 1_000).toFixed(3)} s: ${deed.kind} a=${deed.a} b=${deed.b} ms=${deed.ms} x=${deed.x.toFixed(3)}`,
        ];
  });
  return { keep, of, tries, lines };
}
