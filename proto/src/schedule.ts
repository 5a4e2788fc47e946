import { Cron } from "croner";

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

/**
 * The first instant after `after` at which `schedule` fires in `timezone`; null when it never does, also since this machine does
 * not know the zone (any more). Both are well formed.
 *
 * Where clocks change: one local time of the day that does not exist is the first instant after the gap, and one that
 * exists twice is the first of the two. What has `*`, a range or a step in its hour or minute follows real time: it fires in
 * both of two equal hours, and not in one that is left out. With both a day of the month and one of the week, either will do.
 */
export function nextFire(schedule: string, timezone: string, after: Date): Date | null {
  try {
    // The words of ours are croner's too, and it takes more than these: what is well formed is said above.
    return new Cron(schedule.trim(), { timezone, mode: "5-part" }).nextRun(after);
  } catch (error) {
    // Zones are renamed and given up, and what was written down with one is not to hold up all the others.
    if (timeZoneProblem(timezone) !== null) return null;
    throw error;
  }
}

/** Any would do. */
const anyInstant = new Date(Date.UTC(2026, 0, 1));

/** Why a well-formed schedule is of no use, or null. */
export const deadScheduleProblem = (schedule: string): string | null =>
  nextFire(schedule, "UTC", anyInstant) === null
    ? `"${schedule}" never fires: none of its months has that day. Write a day that exists, or * for the day of month.`
    : null;
