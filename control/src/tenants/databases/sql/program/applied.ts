// @pure
import type { SqlValue } from "../requests.ts";

/** Where the command line notes which migrations it has applied. */
export const migrationsTable = "_svc_migrations";

/** Under which name the time of a migration stands in a table with these columns; null when it is not ours. */
export function timeColumnOf(columns: readonly string[]): string | null {
  if (!columns.includes("name")) return null;
  return ["appliedAt", "applied_at"].find((name) => columns.includes(name)) ?? null;
}

export interface MigrationRow {
  name: SqlValue;
  appliedAt: SqlValue;
}

export const migrationsOf = (rows: readonly MigrationRow[]): { name: string; appliedAt: string }[] =>
  rows.map(({ name, appliedAt }) => ({ name: String(name ?? ""), appliedAt: isoTime(String(appliedAt ?? "")) }));

/** Date and time as engines write them, in UTC unless they say otherwise. */
const engineTime = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:(Z|[+-]\d\d)(?::?(\d\d))?)?$/;

/** In ISO 8601 and UTC; what is no such time stays as it is. */
export function isoTime(text: string): string {
  const [, day, time, zone = "Z", minutes = "00"] = engineTime.exec(text) ?? [];
  if (day === undefined) return text;
  const date = new Date(`${day}T${time}${zone === "Z" ? "Z" : `${zone}:${minutes}`}`);
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}
