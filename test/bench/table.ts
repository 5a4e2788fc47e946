/** Middle value; the mean of the two middle ones for an even number. NaN for none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(middle)] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** One line of the report: what was measured, all samples, and the floor of the same run, when there is one. */
export interface Row {
  name: string;
  unit: "ms" | "KiB" | "MB" | "MB/s" | "req/s" | "µs" | "%";
  samples: number[];
  /** The bare work without svc, measured in the same run. */
  floor: { name: string; samples: number[] } | null;
  aim: { text: string; met: (value: number, floor: number) => boolean } | null;
}

/** The report as aligned text: medians, range, difference to and ratio over the floor, and whether the aim is met. */
export function renderTable(rows: readonly Row[]): string {
  const round = (value: number) => (Number.isNaN(value) ? "-" : String(Math.round(value * 10) / 10));
  const ratio = (value: number) => String(Math.round(value * 100) / 100);
  const cells = rows.map((row) => {
    const value = median(row.samples);
    const floor = row.floor ? median(row.floor.samples) : Number.NaN;
    return [
      row.name,
      `${round(value)} ${row.unit}`,
      `${round(Math.min(...row.samples))}-${round(Math.max(...row.samples))}`,
      row.floor ? `${round(floor)} ${row.unit} (${row.floor.name})` : "-",
      row.floor ? `${value < floor ? "" : "+"}${round(value - floor)}, x${ratio(value / floor)}` : "-",
      row.aim ? `${row.aim.text}: ${row.aim.met(value, floor) ? "met" : "MISSED"}` : "-",
    ];
  });
  const head = ["what", "median", "range", "floor", "over the floor", "aim"];
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)].join("\n");
}
