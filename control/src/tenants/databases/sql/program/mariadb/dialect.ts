// @pure
import type { SqlValue } from "../../requests.ts";
import type { Bound, ColumnShape, Dialect } from "../row-sql.ts";
import { shortest } from "./values.ts";

const hexadecimal = /^0x((?:[0-9a-f]{2})*)$/i;

/** Bytes are `0x` and digits. Other text in a column of bytes is those very bytes. Bits are equal to a number, and to no bytes. */
function bind({ holds }: ColumnShape, value: string | null): Bound {
  if (holds !== "bytes" && holds !== "bits") return { text: "?", value };
  const digits = value === null ? null : (hexadecimal.exec(value)?.[1] ?? Buffer.from(value).toString("hex"));
  if (holds === "bytes") return { text: "unhex(?)", value: digits };
  return { text: "cast(? as unsigned)", value: digits === null ? null : String(BigInt(`0x0${digits}`)) };
}

function textOf({ holds }: ColumnShape, value: number | boolean): string {
  const number = Number(value);
  if (holds !== "bits") return String(number);
  const digits = number.toString(16);
  return `0x${digits.padStart(digits.length + (digits.length % 2), "0")}`;
}

export const isFloat = (dataType: string | undefined): boolean => /^float\b/i.test(dataType ?? "");
const quote = (name: string): string => `\`${name.replaceAll("`", "``")}\``;

/** The server writes no more than six digits of a float, which may stand for another one. */
const selected = ({ name, dataType }: ColumnShape): string =>
  isFloat(dataType) ? `cast(${quote(name)} as double)` : quote(name);
const shown = ({ dataType }: ColumnShape, value: SqlValue): SqlValue =>
  isFloat(dataType) && typeof value === "number" ? Number(shortest(String(value))) : value;

/** A float is compared as one of 64 bits, which next to no text stands for. */
const bindKey = (column: ColumnShape, value: string | null): Bound =>
  isFloat(column.dataType) ? { text: "cast(? as float)", value } : bind(column, value);

/** How numbers of a column are written. Of any other text the server takes the number that it begins with, or zero. */
const numbers = [
  { type: /^(tiny|small|medium|big)?int\b/, text: /^[+-]?\d+$/ },
  // Two digits would be a year of this century or the one before.
  { type: /^year\b/, text: /^\d{4}$/ },
  { type: /^decimal\b/, text: /^[+-]?(\d+\.?\d*|\.\d+)$/ },
  { type: /^(float|double)\b/, text: /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i },
];
/** What `boolean` is another name for. */
const booleans = /^(tinyint\(1\)|bit\(1\))/;

function isKey({ dataType }: ColumnShape, value: unknown): boolean {
  if (typeof value === "boolean") return booleans.test(dataType);
  return numbers.every(({ type, text }) => !type.test(dataType) || text.test(String(value)));
}

export const mariadbDialect: Dialect = {
  quote,
  selected,
  shown,
  bind,
  bindKey,
  textOf,
  isKey,
  rowPlace: [],
  insertDefaults: "() values ()",
  returnsRows: false,
};
