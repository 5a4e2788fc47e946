// @pure
import { isMoment } from "./moment.ts";

/** What a restored copy was found to hold. */
export interface Found {
  coveredAt: string;
  bytes: bigint;
  /** The largest first. */
  tables: readonly { schema: string; name: string; rows: bigint }[];
}

/** What the mode `prove` of a database image may say in all: so many tables with names as long as engines take them. */
export const proofOutputMaxBytes = 2 * 1024 * 1024;
const tablesMax = 2_000;
const wholeNumber = /^[0-9]{1,18}$/;

/** Reads what the mode `prove` says (deploy/database/entry.sh); null unless every line of it is as it should be. */
export function readProof(text: string): Found | null {
  const [moment = "", bytes = "", ...rows] = text.split("\n");
  if (rows.pop() !== "" || rows.length > tablesMax) return null;
  const coveredAt = after("moment ", moment);
  const size = after("bytes ", bytes);
  if (!isMoment(coveredAt) || !wholeNumber.test(size)) return null;
  const tables = rows.map(readTable);
  return tables.includes(null)
    ? null
    : { coveredAt, bytes: BigInt(size), tables: tables.filter((table) => table !== null) };
}

const after = (word: string, line: string): string => (line.startsWith(word) ? line.slice(word.length) : "");

function readTable(line: string): Found["tables"][number] | null {
  const [word, schema = "", name = "", rows = "", ...more] = line.split(" ");
  const texts = [textOf(schema), textOf(name)];
  const [schemaText = null, nameText = null] = texts;
  if (word !== "table" || schemaText === null || nameText === null || !wholeNumber.test(rows) || more.length > 0) {
    return null;
  }
  return { schema: schemaText, name: nameText, rows: BigInt(rows) };
}

/** The text whose bytes these digits are. No engine has a name of more than 256 bytes. */
function textOf(hex: string): string | null {
  if (!/^(?:[0-9a-fA-F]{2}){1,256}$/.test(hex)) return null;
  const bytes = Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  return new TextDecoder().decode(bytes);
}
