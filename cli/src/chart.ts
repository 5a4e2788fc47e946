// @pure

const heights = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"] as const;
const widths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/**
 * One line of columns as high as `values`, the largest of them full. Nothing at all is a blank, and the least that is
 * more than nothing can be seen. Null, where nobody measured, is a dot.
 *
 * @param values none of them negative
 * @param columns how wide it may be; neighbours then share a column, which shows the largest of them
 */
export function sparkline(values: readonly (number | null)[], columns = Number.POSITIVE_INFINITY): string {
  const shown = squeeze(values, columns);
  const most = largest(shown) ?? 0;
  return shown
    .map((value) => (value === null ? "·" : most === 0 || value === 0 ? " " : heightOf(value / most)))
    .join("");
}

/** A bar of at most `columns` for a part of a whole, 0 to 1: eighths of a column are told apart, and the least part is seen. */
export function bar(part: number, columns: number): string {
  const eighths = part <= 0 ? 0 : Math.max(1, Math.round(Math.min(1, part) * columns * 8));
  return "█".repeat(Math.floor(eighths / 8)) + (widths[eighths % 8] ?? "");
}

/**
 * The values of all buckets from `first` to `last`, of a series that leaves out those of which there is nothing to tell.
 *
 * @param series its buckets are ISO 8601, at multiples of `stepMs`
 * @param absent what stands for a bucket that is left out
 */
export function fillGaps<T, V>(
  series: readonly (T & { bucket: string })[],
  { first, last, stepMs }: { first: Date; last: Date; stepMs: number },
  read: (point: T) => V,
  absent: V,
): V[] {
  const known = new Map(series.map((point) => [Date.parse(point.bucket), read(point)]));
  const from = Math.floor(first.getTime() / stepMs) * stepMs;
  const count = Math.max(0, Math.floor((last.getTime() - from) / stepMs) + 1);
  return Array.from({ length: count }, (_, at) => known.get(from + at * stepMs) ?? absent);
}

const heightOf = (part: number): string =>
  heights[Math.min(heights.length - 1, Math.max(0, Math.ceil(part * heights.length) - 1))] ?? "";

function squeeze(values: readonly (number | null)[], columns: number): (number | null)[] {
  if (values.length <= columns) return [...values];
  const width = Math.max(1, Math.floor(columns));
  return Array.from({ length: width }, (_, at) =>
    largest(values.slice(Math.floor((at * values.length) / width), Math.floor(((at + 1) * values.length) / width))),
  );
}

function largest(values: readonly (number | null)[]): number | null {
  let most: number | null = null;
  for (const value of values) if (value !== null) most = most === null ? value : Math.max(most, value);
  return most;
}
