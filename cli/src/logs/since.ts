const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** The moment that `--since` names: a span before `now` (`90s`, `15m`, `1h30m`, `2d`) or an ISO 8601 timestamp. Null when it is neither. */
export function parseSince(text: string, now: Date): Date | null {
  const span = /^(?:\d{1,9}(?:ms|[smhdw]))+$/.test(text) ? text.matchAll(/(\d+)(ms|[smhdw])/g) : null;
  if (span !== null) {
    let backMs = 0;
    for (const [, count = "0", unit = "s"] of span) backMs += Number(count) * (unitMs[unit] ?? 0);
    const at = new Date(now.getTime() - backMs);
    return Number.isNaN(at.getTime()) ? null : at;
  }
  return parseTimestamp(text);
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
