import { parseSpan } from "../span.ts";

/** The moment that `--since` names: a span before `now` (`90s`, `15m`, `1h30m`, `2d`) or an ISO 8601 timestamp. Null when it is neither. */
export function parseSince(text: string, now: Date): Date | null {
  const backMs = parseSpan(text);
  if (backMs === null) return parseTimestamp(text);
  const at = new Date(now.getTime() - backMs);
  return Number.isNaN(at.getTime()) ? null : at;
}

const isoTimestamp = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/** An ISO 8601 date or timestamp; without an offset it is UTC. Null when it is none. */
function parseTimestamp(text: string): Date | null {
  const match = isoTimestamp.exec(text);
  if (match === null) return null;
  const [, day = "", time = "00:00", offset = "Z"] = match;
  const withColon = offset.replace(/^([+-]\d{2})(\d{2})$/, "$1:$2").toUpperCase();
  const at = new Date(`${day}T${time}${withColon}`);
  return Number.isNaN(at.getTime()) ? null : at;
}

const leading = /^\[?(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)(?=$|[\]\s,|])/i;

/** Whether a log line is from `since` or later. A line without a leading timestamp is kept: nobody knows its age. */
export function isSince(line: string, since: Date): boolean {
  const at = parseTimestamp(leading.exec(line)?.[1] ?? "");
  return at === null || at >= since;
}
