import { stripVTControlCharacters } from "node:util";
import { stripControl } from "@svc/proto";

const units = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** `sizeBytes` for people: three digits at most, 1024-based. */
export function formatBytes(sizeBytes: number): string {
  let size = sizeBytes;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : 1;
  return `${size.toFixed(digits)} ${units[unit] ?? ""}`;
}

/** A span for people: `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 1000) return `${Math.max(0, Math.round(durationMs))} ms`;
  const seconds = Math.round(durationMs / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** How long ago `timestamp` (ISO 8601) was at `now`, in one unit; "-" for null or an unreadable one. */
export function formatAge(timestamp: string | null | undefined, now: Date): string {
  const at = timestamp ? Date.parse(timestamp) : Number.NaN;
  if (Number.isNaN(at)) return "-";
  const seconds = Math.round((now.getTime() - at) / 1000);
  if (seconds < 1) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** Until which day something is good (`expiresAt` in ISO 8601), and for how long that is; "-" for null. */
export function formatExpiry(expiresAt: string | null, now: Date): string {
  if (expiresAt === null) return "-";
  const leftMs = Date.parse(expiresAt) - now.getTime();
  const day = expiresAt.slice(0, 10);
  return leftMs <= 0 ? `expired on ${day}` : `until ${day}, in ${formatDuration(leftMs)}`;
}

/** A commit as people name it. */
export const shortCommit = (sha: string): string => sha.slice(0, 7);

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const zeroWidth = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const plainAscii = /^[ -~]*$/;
let graphemes: Intl.Segmenter | undefined;

/** Columns that `text` takes on a terminal; colour codes take none. */
export function displayWidth(text: string): number {
  // Nearly every text is that, and help measures thousands.
  if (plainAscii.test(text)) return text.length;
  graphemes ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  let width = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) {
    if (!zeroWidth.test(segment)) width += wide.test(segment) ? 2 : 1;
  }
  return width;
}

/** Lines of at most `width` columns, broken between words; a word that is longer has a line of its own. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1);
    if (line === undefined || displayWidth(line) + 1 + displayWidth(word) > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

const lineBreaks: ReadonlyMap<string, string> = new Map([
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);

/** `text` as a cell shows it: in one line, with a sign for what would begin another or move the columns. */
export const oneLine = (text: string): string =>
  text.replace(/[\n\v\f\r\t\u0085\u2028\u2029]/g, (found) => lineBreaks.get(found) ?? " ");

/**
 * Rows as aligned columns, two spaces apart, no trailing blanks; each row is one line, whatever is in it. The first row is
 * the header. Numbers in `alignRight` are columns that line up on the right.
 */
export function table(cells: readonly (readonly string[])[], alignRight: readonly number[] = []): string {
  const rows = cells.map((row) => row.map(oneLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, displayWidth(cell));
  }
  const pad = (cell: string, column: number) => {
    const space = " ".repeat((widths[column] ?? 0) - displayWidth(cell));
    return alignRight.includes(column) ? space + cell : cell + space;
  };
  return rows.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}

/** A copy of `value` with no control characters in any text, so that nothing a server or tenant wrote can drive the terminal. */
export function cleanDeep<T>(value: T): T;
export function cleanDeep(value: unknown): unknown {
  if (typeof value === "string") return stripControl(value);
  if (Array.isArray(value)) return value.map((item) => cleanDeep(item));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, cleanDeep(item)]));
}

/**
 * `text` made inert for the log reader of GitHub Actions, which obeys `::command::` at the start of a
 * line and `##[command]` anywhere in one.
 */
export const inertForActions = (text: string): string =>
  text.replace(/^([^\S\n]*)::/gm, "$1> ::").replaceAll("##[", "# #[");
