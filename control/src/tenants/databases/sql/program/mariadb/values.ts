import type { SqlValue } from "../../requests.ts";

/** Types by their numbers in the protocol: TINY, SHORT, LONG, FLOAT, DOUBLE, INT24, YEAR. What a number of JSON holds exactly. */
const numbers = new Set([1, 2, 3, 4, 5, 9, 13]);
/** DECIMAL, LONGLONG, NEWDECIMAL. What no number of JSON holds exactly. */
const exactNumbers = new Set([0, 8, 246]);
/** VARCHAR, TINY_BLOB to BLOB, VAR_STRING, STRING, which are texts or bytes as their character set says. */
const texts = new Set([15, 249, 250, 251, 252, 253, 254]);
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
export function kindOf({ columnType, characterSet }: ResultColumn): "bytes" | "number" | "text" {
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
    return Number.isFinite(number) ? number : text;
  };
}
