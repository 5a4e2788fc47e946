import { median } from "../table.ts";

/** Which figure of the samples an aim is held against. */
export type Judged = "median" | "p99" | "max";

export interface Aim {
  text: string;
  judged: Judged;
  met: (value: number) => boolean;
}

/** One line of the report. */
export interface Measurement {
  /** Of the goal table in docs/cluster.md. */
  row: number;
  metric: string;
  unit: string;
  /** One per run, or one per event where `per` says so. */
  samples: readonly number[];
  /** What one sample is. */
  per: "run" | "event";
  aim: Aim | null;
  /** What the number does and does not say; null when it explains itself. */
  note: string | null;
}

/** A row that is measured elsewhere, or not here. */
export interface Elsewhere {
  row: number;
  metric: string;
  where: string;
}

/** Value below which `share` of the samples lie (nearest rank). NaN for none. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export const judgedValue = (samples: readonly number[], judged: Judged): number =>
  judged === "median" ? median(samples) : quantile(samples, judged === "p99" ? 0.99 : 1);

export const atMost = (limit: number, unit: string, judged: Judged): Aim => ({
  text: `${judged === "median" ? "" : `${judged} `}<= ${limit} ${unit}`,
  judged,
  met: (value) => value <= limit,
});

export const atLeast = (limit: number, unit: string): Aim => ({
  text: `>= ${limit} ${unit}`,
  judged: "median",
  met: (value) => value >= limit,
});

export const none = (unit: string): Aim => ({ text: `0 ${unit}`, judged: "max", met: (value) => value === 0 });

/** Null where there is no aim, or nothing to hold against it. */
export const isMet = ({ samples, aim }: Measurement): boolean | null =>
  aim === null || samples.length === 0 ? null : aim.met(judgedValue(samples, aim.judged));

const number = (value: number): string => {
  if (Number.isNaN(value)) return "-";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
};

/** The report as aligned text, in the order of the rows; notes follow. */
export function renderReport(measured: readonly Measurement[], elsewhere: readonly Elsewhere[]): string {
  const lines = measured.map((each) => {
    const met = isMet(each);
    const { row, metric, aim, samples, unit, per } = each;
    return {
      row,
      cells: [
        String(row),
        metric,
        aim?.text ?? "-",
        `${number(median(samples))} ${unit}`,
        per === "event" ? number(quantile(samples, 0.99)) : "-",
        samples.length === 0 ? "-" : `${number(quantile(samples, 0))}..${number(quantile(samples, 1))}`,
        `${samples.length} ${per}${samples.length === 1 ? "" : "s"}`,
        met === null ? "-" : met ? "met" : "MISSED",
      ],
    };
  });
  for (const { row, metric, where } of elsewhere) {
    lines.push({ row, cells: [String(row), metric, "-", where, "-", "-", "-", "-"] });
  }
  lines.sort((a, b) => a.row - b.row);
  const head = ["row", "metric", "aim", "median", "p99", "range", "samples", "aim met?"];
  const cells = lines.map((line) => line.cells);
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((line) => line[column]?.length ?? 0)));
  const text = (line: readonly string[]) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  const notes = measured.flatMap(({ row, metric, note }) => (note === null ? [] : [`${row}, ${metric}: ${note}`]));
  return [
    text(head),
    text(widths.map((width) => "-".repeat(width))),
    ...cells.map(text),
    ...(notes.length > 0 ? ["", ...notes] : []),
  ].join("\n");
}
