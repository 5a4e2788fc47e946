// @pure
/**
 * The frequent ones of any number of values, in bounded room ("space-saving"): a value for which there is no room takes the
 * place of the least frequent one, together with its count. That much of its count may be of others.
 */
export type TopValues = Map<string, Tally>;

interface Tally {
  count: number;
  /** Of `count`: what may be of values that were here before. */
  inherited: number;
}

/** @param room how many values are kept; when more are kept already, no new one is */
export function addValue(values: TopValues, value: string, weight: number, room: number): void {
  const known = values.get(value);
  if (known !== undefined) {
    known.count += weight;
    return;
  }
  if (values.size < room) {
    values.set(value, { count: weight, inherited: 0 });
    return;
  }
  const [least, tally] = leastOf(values);
  if (tally === null) return;
  // One in, one out: nothing grows.
  values.delete(least);
  values.set(value, { count: tally.count + weight, inherited: tally.count });
}

function leastOf(values: TopValues): [string, Tally | null] {
  let least: [string, Tally | null] = ["", null];
  for (const entry of values) if (least[1] === null || entry[1].count < least[1].count) least = entry;
  return least;
}

/** What is certainly each value's, and in `other` what is not certainly anybody's: together as much as was added. */
export function certain(values: TopValues): { counts: { value: string; count: number }[]; other: number } {
  const counts: { value: string; count: number }[] = [];
  let other = 0;
  for (const [value, { count, inherited }] of values) {
    counts.push({ value, count: count - inherited });
    other += inherited;
  }
  return { counts, other };
}
