import { limits } from "@svc/proto/limits";
import { Refused } from "../../../../../stores/refused.ts";
import type { ExportFormat } from "../../requests.ts";
import type { ColumnShape, TableShape } from "../row-sql.ts";
import { type CsvRecord, createCsvReader } from "../transfer/csv.ts";
import { framingOf } from "../transfer/framing.ts";
import { storageOf, textLiteral } from "./catalog.ts";
import type { Connection } from "./connection.ts";
import { mariadbDialect } from "./dialect.ts";
import { csvHead, rowText, sqlPreamble } from "./export-text.ts";
import { mariadbRefusal } from "./failure.ts";
import { kindOf, valueReader } from "./values.ts";

const { quote, bind } = mariadbDialect;
const namesOf = (columns: readonly ColumnShape[]): string => columns.map(({ name }) => quote(name)).join(", ");

export async function* exportRows(
  connection: Connection,
  table: TableShape,
  format: ExportFormat,
): AsyncGenerator<string> {
  // What the engine computes by itself cannot be written again.
  const columns = table.columns.filter(({ isGenerated }) => format === "json" || !isGenerated);
  const names = columns.map(({ name }) => name);
  const insert = `insert into ${quote(table.name)} (${namesOf(columns)}) values`;
  const framing = framingOf(format, { csv: csvHead(names), preamble: sqlPreamble, insert });
  let readers: { is: ReturnType<typeof kindOf>; read: ReturnType<typeof valueReader> }[] = [];
  const sql = `select ${namesOf(columns)} from ${quote(table.schema)}.${quote(table.name)}`;
  for await (const { columns: results, row } of connection.stream(sql)) {
    if (readers.length === 0) readers = results.map((each) => ({ is: kindOf(each), read: valueReader(each) }));
    const cells = readers.map(({ is, read }, at) => ({ is, value: read(row[at] ?? null) }));
    const text = rowText(format, names, cells);
    yield framing.beforeRow() + text;
    framing.afterRow(text.length);
  }
  yield framing.end();
}

/** Of one statement. A server takes 65,535 values in one. */
const batch = { rowsMax: 500, valuesMax: 50_000, lengthMax: 1024 * 1024 };
/** Another session was chosen to go on: the server has rolled everything back. */
const deadlock = 1213;

interface Insertion {
  connection: Connection;
  into: string;
  columns: readonly ColumnShape[];
}

/** One transaction. Rows go in batches; of one that is refused they are tried one by one, to tell which it was. */
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
  const into = `insert into ${quote(table.schema)}.${quote(table.name)} (${namesOf(columns)}) values `;
  const insertion = { connection, into, columns };
  const rowsMax = Math.max(1, Math.min(batch.rowsMax, Math.floor(batch.valuesMax / columns.length)));
  let waiting: CsvRecord[] = [];
  let waitingLength = 0;
  let rowCount = 0;
  await connection.query("start transaction", 0);
  for await (const record of recordsOf(csv)) {
    if (record.fields.length !== columns.length) {
      const message = `Line ${record.line}: It has ${record.fields.length} fields, and the first line names ${columns.length} columns.`;
      throw new Refused("QUERY_ERROR", message);
    }
    waiting.push(record);
    waitingLength += record.fields.reduce((sum, field) => sum + (field?.length ?? 0), 0);
    rowCount += 1;
    if (waiting.length < rowsMax && waitingLength < batch.lengthMax) continue;
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
  const reader = createCsvReader(limits.importRowLengthMax);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let isFirst = true;
  const read = (bytes?: Buffer): string => {
    try {
      return bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
    } catch (cause) {
      throw new Refused("QUERY_ERROR", "The file is not in UTF-8.", { cause });
    }
  };
  function* withoutFirst(records: CsvRecord[]) {
    for (const record of records) {
      if (!isFirst) yield record;
      isFirst = false;
    }
  }
  for await (const chunk of csv) yield* withoutFirst(reader.push(read(chunk)));
  yield* withoutFirst(reader.push(read()));
  yield* withoutFirst(reader.end());
}

async function insertBatch(insertion: Insertion, records: readonly CsvRecord[]): Promise<void> {
  try {
    await insertAll(insertion, records);
  } catch (error) {
    const refusal = mariadbRefusal(error);
    if (refusal === null) throw error;
    const [first] = records;
    const isOver = (error as { errno?: number }).errno === deadlock;
    if (first === undefined || isOver) throw error;
    if (records.length === 1)
      throw new Refused("QUERY_ERROR", `Line ${first.line}: ${refusal.message}`, { cause: error });
    for (const record of records) await insertBatch(insertion, [record]);
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
