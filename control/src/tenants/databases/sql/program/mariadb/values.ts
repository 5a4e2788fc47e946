// @pure
import type { SqlValue } from "../../requests.ts";
import type { Cell } from "./export-text.ts";

/** Types by their numbers in the protocol: TINY, SHORT, LONG, FLOAT, DOUBLE, INT24, YEAR. What a number of JSON holds exactly. */
const numbers = new Set([1, 2, 3, 4, 5, 9, 13]);
/** DECIMAL, LONGLONG, NEWDECIMAL. What no number of JSON holds exactly. */
const exactNumbers = new Set([0, 8, 246]);
/** VARCHAR, TINY_BLOB to BLOB, VAR_STRING, STRING, which are texts or bytes as their character set says. */
const texts = new Set([15, 249, 250, 251, 252, 253, 254]);
const year = 13;
const bit = 16;
const geometry = 255;
/** The character set of what is no text. */
const binary = 63;

/** A column of a result, as the server describes it. */
export interface ResultColumn {
  columnType: number;
  characterSet: number;
}

/** How the engine writes values of a column: as bytes, as numbers, DECIMAL and BIGINT among them, or as texts. */
function kindOf({ columnType, characterSet }: ResultColumn): "bytes" | "number" | "text" {
  if (columnType === bit || columnType === geometry || (texts.has(columnType) && characterSet === binary))
    return "bytes";
  return numbers.has(columnType) || exactNumbers.has(columnType) ? "number" : "text";
}

/**
 * How values of a column are read from the bytes of the text protocol. What JSON holds exactly becomes that; bytes become `0x` and
 * hexadecimal digits, as they are written in SQL; all else stays the engine's text.
 */
export function valueReader({ columnType, characterSet }: ResultColumn): (bytes: Buffer | null) => SqlValue {
  const isBytes = kindOf({ columnType, characterSet }) === "bytes";
  return (bytes) => {
    if (bytes === null) return null;
    if (isBytes) return `0x${bytes.toString("hex")}`;
    const text = bytes.toString("utf8");
    if (!numbers.has(columnType)) return text;
    const number = Number(text);
    // The year 0 is written so: as a number, or in fewer digits, it would be the year 2000.
    return Number.isFinite(number) && !(columnType === year && number === 0) ? number : text;
  };
}

/** The shortest number that is the same one of 32 bits, as the one of 64 bits that it became has digits that nobody wrote. */
export function shortest(text: string): string {
  const float = Number(text);
  const found = [6, 7, 8]
    .map((digits) => float.toPrecision(digits))
    .find((each) => Math.fround(Number(each)) === float);
  return Object.is(float, -0) ? text : String(Number(found ?? float.toPrecision(9)));
}

/** How values of a column are read that are written to a file. `isFloat`: it is of 32 bits, and came as one of 64. */
export function cellReader(column: ResultColumn, { isFloat }: { isFloat: boolean }): (bytes: Buffer | null) => Cell {
  const read = valueReader(column);
  const is = kindOf(column);
  return (bytes) => {
    if (bytes === null) return { is, value: null, text: null };
    if (is === "bytes") return { is, value: read(bytes), text: `0x${bytes.toString("hex")}` };
    const text = isFloat ? shortest(bytes.toString("utf8")) : bytes.toString("utf8");
    return { is, value: isFloat ? Number(text) : read(bytes), text };
  };
}
