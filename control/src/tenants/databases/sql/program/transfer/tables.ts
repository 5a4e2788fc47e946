import type { Duplex } from "node:stream";
import { Refused } from "../../../../../stores/refused.ts";
import type { Asked, Given } from "../../requests.ts";
import { getTable } from "../rows.ts";
import type { Session } from "../session.ts";
import { CsvProblem, createCsvReader } from "./csv.ts";
import { csvBounds } from "./csv-bounds.ts";
import { columnsOfHeader } from "./header.ts";

/** Writes the rows of a table to `to`, whose end is not written. */
export async function exportTable(
  session: Session,
  { table: name, format }: Asked<"export">,
  to: Duplex | null,
): Promise<Given<"export">> {
  const table = await getTable(session, name);
  if (to === null) throw new Error("an export has nowhere to go");
  // What the engine computes by itself is in no file that is read in again.
  const columns = table.columns.filter(({ isGenerated }) => format === "json" || !isGenerated);
  if (columns.length === 0) throw new Refused("QUERY_ERROR", "The table has no columns to export.");
  await writeAll(session.exportRows({ ...table, columns }, format), to);
  return {};
}

/** Inserts what comes from `from`. */
export async function importTable(
  session: Session,
  { table: name }: Asked<"import">,
  from: Duplex | null,
): Promise<Given<"import">> {
  const table = await getTable(session, name);
  if (from === null) throw new Error("an import has nowhere to come from");
  try {
    const { header, all } = await readHeader(from);
    const columns = columnsOfHeader(table, header);
    if ("code" in columns) throw new Refused(columns.code, columns.message);
    return { rowCount: await session.importRows(table, columns, all) };
  } catch (error) {
    if (!(error instanceof CsvProblem)) throw error;
    throw new Refused("QUERY_ERROR", `Line ${error.line}: ${error.message}`, { cause: error });
  }
}

/** What is handed on at once: rows may be small, and one may be larger than a frame. */
const portionBytes = 256 * 1024;

async function writeAll(rows: AsyncIterable<Buffer | string>, to: Duplex): Promise<void> {
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  const flush = async (): Promise<void> => {
    const bytes = Buffer.concat(waiting);
    [waiting, waitingBytes] = [[], 0];
    for (let at = 0; at < bytes.length; at += portionBytes) await write(to, bytes.subarray(at, at + portionBytes));
  };
  for await (const row of rows) {
    const bytes = typeof row === "string" ? Buffer.from(row) : row;
    waiting.push(bytes);
    waitingBytes += bytes.length;
    if (waitingBytes >= portionBytes) await flush();
  }
  await flush();
}

/** Resolves once there is room for more. */
const write = (to: Duplex, bytes: Buffer): Promise<void> =>
  new Promise((resolve, reject) => to.write(bytes, (error) => (error ? reject(error) : resolve())));

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** The first record of a CSV, and all of its bytes, but for a mark of their order. */
async function readHeader(from: AsyncIterable<Buffer>) {
  const chunks = from[Symbol.asyncIterator]();
  const reader = createCsvReader(csvBounds);
  const decoder = new TextDecoder("utf-8", { fatal: false });
  const read: Buffer[] = [];
  for (;;) {
    const { value, done } = await chunks.next();
    if (value !== undefined) read.push(value);
    const records = done === true ? reader.end() : reader.push(decoder.decode(value, { stream: true }));
    if (records.length === 0 && done !== true) continue;
    return { header: records[0], all: restOf(Buffer.concat(read), chunks) };
  }
}

async function* restOf(first: Buffer, chunks: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  const isMarked = first.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  yield isMarked ? first.subarray(byteOrderMark.length) : first;
  yield* { [Symbol.asyncIterator]: () => chunks };
}
