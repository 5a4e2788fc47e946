// @pure
import type { ExportFormat, SqlValue } from "../../requests.ts";
import { textLiteral } from "./catalog.ts";

/** Of characters that mean the same in any mode of the server. */
const plain = /^[^\\\p{Cc}]*$/u;
const textOf = (text: string): string =>
  plain.test(text) ? `'${text.replaceAll("'", "''")}'` : textLiteral(Buffer.from(text).toString("hex"));

/** A value as JSON has it, as the engine's text, and whether that is of bytes, a number or a text. */
export interface Cell {
  value: SqlValue;
  text: string | null;
  is: "bytes" | "number" | "text";
}

function sqlOf({ text, is }: Omit<Cell, "value">): string {
  if (text === null) return "null";
  if (is === "number") return text;
  if (is === "bytes") return text === "0x" ? "''" : text;
  return textOf(text);
}

/** JSON has the zero that is less than nothing, and what writes it here has not. */
const jsonOf = (value: SqlValue): string => (Object.is(value, -0) ? "-0" : JSON.stringify(value));

/** Nothing for null, and quotes for what could be taken for it, would end a field, or would end the file for Postgres. */
function csvOf(text: string | null): string {
  if (text === null) return "";
  return text === "" || text === "\\." || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A row of an export. */
export function rowText(format: ExportFormat, names: readonly string[], cells: readonly Cell[]): string {
  switch (format) {
    case "csv":
      return `${cells.map(({ text }) => csvOf(text)).join(",")}\n`;
    case "json": {
      const pairs = cells.map(({ value }, at) => `${JSON.stringify(names[at])}:${jsonOf(value)}`);
      return `{${pairs.join(",")}}`;
    }
    case "sql":
      return `(${cells.map(sqlOf).join(",")})`;
  }
}

/** The line of names above a CSV. */
export const csvHead = (names: readonly string[]): string => `${names.map(csvOf).join(",")}\n`;

/** So that each value is read as it was written. */
export const sqlPreamble =
  "set names utf8mb4;\nset time_zone = '+00:00';\nset session sql_mode = concat(@@session.sql_mode, ',NO_AUTO_VALUE_ON_ZERO');\n";
