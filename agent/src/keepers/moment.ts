// @pure
import type { Moment } from "../engine/engine.ts";

const rfc3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;

/** A moment of control's (RFC 3339, UTC) as images and copies write it, cut to microseconds; null for anything else. */
export function momentOf(text: string): Moment | null {
  const [, seconds, fraction = ""] = rfc3339.exec(text) ?? [];
  if (seconds === undefined || Number.isNaN(Date.parse(`${seconds}Z`))) return null;
  return `${seconds}.${fraction.padEnd(6, "0").slice(0, 6)}Z`;
}

/** Whether a text is one already. */
export const isMoment = (text: string): boolean => momentOf(text) === text;
