import { stripControl } from "@svc/proto";
import { redact, redacted, scrub } from "../redact.ts";

/** What people call columns that hold a secret, or its hash. */
const secretColumn =
  /pass(?:word|wd|phrase)|secret|token|(?:api|private|access)_?key|authorization|cookie|databaseurl/i;

/** Rows without the texts of such columns, which are none of a model's business. Whoever renames a column gets around it. */
export function cleanRows(columns: readonly string[], rows: readonly (readonly unknown[])[]): unknown[][] {
  const isSecret = columns.map((name) => secretColumn.test(name));
  return rows.map((row) => row.map((cell, at) => (isSecret[at] && typeof cell === "string" ? redacted : cell)));
}

/**
 * A copy of a result without secrets, whatever field or text they are in: values under secret-looking names, passwords in
 * URLs, and what this run knows to be secret. Nor does it have control characters, which hide text from whoever reads along.
 */
export function cleanResult<T extends object>(payload: T, secrets: ReadonlySet<string>): T {
  const cleanTexts = (value: unknown): unknown => {
    if (typeof value === "string") return scrub(stripControl(value), secrets);
    if (Array.isArray(value)) return value.map(cleanTexts);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [scrub(name, secrets), cleanTexts(each)]));
  };
  return cleanTexts(redact(payload)) as T;
}
