import { Refused } from "../../../../../stores/refused.ts";
import type { ExportFormat } from "../../requests.ts";
import { type ColumnShape, namesOf, placeOf, type TableShape } from "../row-sql.ts";
import { CsvProblem, type CsvRecord, createCsvReader } from "../transfer/csv.ts";
import { csvBounds } from "../transfer/csv-bounds.ts";
import { framingOf } from "../transfer/framing.ts";
import { storageOf, textLiteral } from "./catalog.ts";
import type { Connection } from "./connection.ts";
import { isFloat, mariadbDialect } from "./dialect.ts";
import { csvHead, rowText, sqlPreamble } from "./export-text.ts";
import { mariadbRefusal } from "./failure.ts";
import { cellReader } from "./values.ts";

const { quote, bind, selected } = mariadbDialect;

export async function* exportRows(
  connection: Connection,
  table: TableShape,
  format: ExportFormat,
): AsyncGenerator<string> {
  const { columns } = table;
  const names = columns.map(({ name }) => name);
  const insert = `insert into ${quote(table.name)} (${namesOf(mariadbDialect, columns)}) values`;
  const framing = framingOf(format, { csv: csvHead(names), preamble: sqlPreamble, insert });
  let readers: ReturnType<typeof cellReader>[] = [];
  const sql = `select ${columns.map(selected).join(", ")} from ${placeOf(mariadbDialect, table)}`;
  for await (const { columns: results, row } of connection.stream(sql)) {
    if (readers.length === 0)
      readers = results.map((each, at) => cellReader(each, { isFloat: isFloat(columns[at]?.dataType) }));
    const cells = readers.map((read, at) => read(row[at] ?? null));
    const text = rowText(format, names, cells);
    yield framing.beforeRow() + text;
    framing.afterRow(text.length);
  }
  yield framing.end();
}

/** A zero is no wish for the next number, and what does not fit is refused in tables of any engine and by any mode of the server. */
const importMode = "set session sql_mode = concat(@@session.sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO')";

/** What waits until it is sent. */
const batch = { rowsMax: 256, lengthMax: 1024 * 1024 };
/** Rows of one statement: of few numbers, since both sides keep each statement that they were asked to prepare. */
const statementRows = [256, 64, 16, 4, 1];
/** Values of one statement. A server takes 65,535. */
const valuesMax = 8_192;
/** Of the whole, so that no row is tried by itself: a deadlock, after which all is rolled back, and a lock that another session keeps. */
const ofLocks = new Set<unknown>([1205, 1213]);

interface Insertion {
  connection: Connection;
  into: string;
  columns: readonly ColumnShape[];
}

/** One transaction. */
export async function importRows(
  connection: Connection,
  table: TableShape,
  columns: readonly ColumnShape[],
  csv: AsyncIterable<Buffer>,
): Promise<number> {
  const [storage] = (await connection.query(storageOf(textLiteral(Buffer.from(table.name).toString("hex"))), 1)).rows;
  if (storage?.[0] !== "InnoDB") {
    const message = `Tables of the engine ${storage?.[0] ?? "?"} take no transactions: an import that failed would leave a part.`;
    throw new Refused("QUERY_ERROR", message);
  }
  const into = `insert into ${placeOf(mariadbDialect, table)} (${namesOf(mariadbDialect, columns)}) values `;
  const insertion = { connection, into, columns };
  let waiting: CsvRecord[] = [];
  let waitingLength = 0;
  let rowCount = 0;
  await connection.query(importMode, 0);
  await connection.query("start transaction", 0);
  for await (const record of recordsOf(csv)) {
    if (record.fields.length !== columns.length) {
      const message = `Line ${record.line}: It has ${record.fields.length} fields, and the first line names ${columns.length} columns.`;
      throw new Refused("QUERY_ERROR", message);
    }
    waiting.push(record);
    waitingLength += record.fields.reduce((sum, field) => sum + (field?.length ?? 0), 0);
    rowCount += 1;
    if (waiting.length < batch.rowsMax && waitingLength < batch.lengthMax) continue;
    await insertBatch(insertion, waiting);
    waiting = [];
    waitingLength = 0;
  }
  if (waiting.length > 0) await insertBatch(insertion, waiting);
  await connection.query("commit", 0);
  return rowCount;
}

/** Without the line of names. */
async function* recordsOf(csv: AsyncIterable<Buffer>): AsyncGenerator<CsvRecord> {
  const reader = createCsvReader(csvBounds);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let isFirst = true;
  const read = (bytes?: Buffer): string => {
    try {
      return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
    } catch {
      throw new CsvProblem(reader.line, "It is not in UTF-8.");
    }
  };
  function* withoutFirst(records: CsvRecord[]) {
    for (const record of records) {
      if (!isFirst) yield record;
      isFirst = false;
    }
  }
  for await (const chunk of csv) for (const part of linesOf(chunk)) yield* withoutFirst(reader.push(read(part)));
  yield* withoutFirst(reader.push(read()));
  yield* withoutFirst(reader.end());
}

/** Each with its end, so that what is wrong within one can be told by it. */
function* linesOf(chunk: Buffer): Generator<Buffer> {
  for (let at = 0; at < chunk.length; ) {
    const end = chunk.indexOf("\n", at);
    const next = end === -1 ? chunk.length : end + 1;
    yield chunk.subarray(at, next);
    at = next;
  }
}

async function insertBatch(insertion: Insertion, records: readonly CsvRecord[]): Promise<void> {
  for (let at = 0; at < records.length; ) {
    const left = records.length - at;
    const rows = statementRows.find((each) => each <= left && each * insertion.columns.length <= valuesMax) ?? 1;
    await insertTogether(insertion, records.slice(at, at + rows));
    at += rows;
  }
}

/** In one statement; of what is refused row by row, to tell which it was. */
async function insertTogether(insertion: Insertion, records: readonly CsvRecord[]): Promise<void> {
  try {
    await insertAll(insertion, records);
  } catch (error) {
    const refusal = mariadbRefusal(error);
    if (refusal === null) throw error;
    const [first] = records;
    const isOver = ofLocks.has((error as { errno?: number }).errno);
    if (first === undefined || isOver) throw error;
    if (records.length === 1)
      throw new Refused("QUERY_ERROR", `Line ${first.line}: ${refusal.message}`, { cause: error });
    for (const record of records) await insertTogether(insertion, [record]);
  }
}

async function insertAll({ connection, into, columns }: Insertion, records: readonly CsvRecord[]): Promise<void> {
  const values: (string | null)[] = [];
  const rows = records.map(({ fields }) => {
    const bound = columns.map((column, at) => bind(column, fields[at] ?? null, values.length + at + 1));
    values.push(...bound.map(({ value }) => value));
    return `(${bound.map(({ text }) => text).join(",")})`;
  });
  await connection.execute(into + rows.join(","), values);
}
