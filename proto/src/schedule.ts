/** Cron expressions of five fields, as scheduled jobs write them. */

interface Field {
  name: string;
  min: number;
  max: number;
  words?: readonly string[];
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"] as const;
const weekdays = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] as const;

const fields: readonly Field[] = [
  { name: "minute", min: 0, max: 59 },
  { name: "hour", min: 0, max: 23 },
  { name: "day of month", min: 1, max: 31 },
  { name: "month", min: 1, max: 12, words: months },
  { name: "day of week", min: 0, max: 7, words: weekdays },
];

/** Why `text` is not a schedule (`minute hour day-of-month month day-of-week`), or null. */
export function scheduleProblem(text: string): string | null {
  const parts = text.trim().split(/[ \t]+/);
  if (text.length > 200 || parts.length !== fields.length)
    return "A schedule has five fields: minute, hour, day of month, month, day of week.";
  for (const [at, field] of fields.entries()) {
    const part = parts[at] ?? "";
    if (!part.split(",").every((item) => isItem(item, field)))
      return `"${part}" is not a valid ${field.name} (${field.min}-${field.max}).`;
  }
  return null;
}

/** `*`, `5`, `1-5`, and each with a step: `*`/15, 10-50/5. */
function isItem(item: string, field: Field): boolean {
  const [range = "", step, ...more] = item.split("/");
  if (more.length > 0) return false;
  if (step !== undefined && !(/^[1-9][0-9]?$/.test(step) && Number(step) <= field.max)) return false;
  if (range === "*") return true;
  const [low, high, ...rest] = range.split("-").map((text) => fieldValue(text, field));
  if (rest.length > 0 || low === undefined || low === null || high === null) return false;
  return high === undefined ? step === undefined : low <= high;
}

function fieldValue(text: string, field: Field): number | null {
  const word = field.words?.indexOf(text.toLowerCase()) ?? -1;
  if (word !== -1) return word + field.min;
  if (!/^[0-9]{1,2}$/.test(text)) return null;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : null;
}

/** Why `name` is not a time zone (`Europe/Berlin`, `UTC`), or null. */
export function timeZoneProblem(name: string): string | null {
  // Offsets such as +02:00 are zones to Intl, but they know no summer time and hide that from the reader.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return `"${name}" is not a time zone name.`;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return null;
  } catch {
    return `"${name}" is not a known time zone.`;
  }
}
