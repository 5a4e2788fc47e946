// @pure
import type { ExportFormat, SqlValue } from "../../requests.ts";
import { textLiteral } from "./catalog.ts";

/** Of characters that mean the same in any mode of the server. */
const plain = /^[^\\\p{Cc}]*$/u;
const textOf = (text: string): string =>
  plain.test(text) ? `'${text.replaceAll("'", "''")}'` : textLiteral(Buffer.from(text).toString("hex"));

/** What is read of a value, and whether the engine writes it as bytes, a number or a text. */
export interface Cell {
  value: SqlValue;
  is: "bytes" | "number" | "text";
}

function sqlOf({ value, is }: Cell): string {
  if (value === null) return "null";
  if (is === "number") return String(value);
  const text = String(value);
  if (is === "bytes") return text === "0x" ? "''" : text;
  return textOf(text);
}

/** Nothing for null, and quotes for what could be taken for it, or would end a field. */
function csvOf({ value }: Cell): string {
  if (value === null) return "";
  const text = String(value);
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A row of an export. */
export function rowText(format: ExportFormat, names: readonly string[], cells: readonly Cell[]): string {
  switch (format) {
    case "csv":
      return `${cells.map(csvOf).join(",")}\n`;
    case "json": {
      const pairs = cells.map(({ value }, at) => `${JSON.stringify(names[at])}:${JSON.stringify(value)}`);
      return `{${pairs.join(",")}}`;
    }
    case "sql":
      return `(${cells.map(sqlOf).join(",")})`;
  }
}

/** The line of names above a CSV. */
export const csvHead = (names: readonly string[]): string =>
  `${names.map((value) => csvOf({ value, is: "text" })).join(",")}\n`;

/** So that each value is read as it was written. */
export const sqlPreamble =
  "set names utf8mb4;\nset time_zone = '+00:00';\nset session sql_mode = concat(@@session.sql_mode, ',NO_AUTO_VALUE_ON_ZERO');\n";
