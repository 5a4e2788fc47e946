/** The lines of a text; a line feed at its end starts no further line. */
export const splitLines = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/**
 * What is new in `current`, when both are the last lines of one growing log: the lines after the longest
 * end of `previous` that `current` begins with. `gap` when they do not touch, so that lines may be missing.
 */
export function newLines(previous: readonly string[], current: readonly string[]): { lines: string[]; gap: boolean } {
  for (let from = Math.max(0, previous.length - current.length); from < previous.length; from++) {
    const kept = previous.length - from;
    let same = 0;
    while (same < kept && previous[from + same] === current[same]) same++;
    if (same === kept) return { lines: current.slice(kept), gap: false };
  }
  return { lines: [...current], gap: previous.length > 0 && current.length > 0 };
}
