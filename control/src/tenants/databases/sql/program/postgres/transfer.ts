import { limits } from "@svc/proto/limits";
import pg from "pg";
import { Refused } from "../../../../../stores/refused.ts";
import type { ExportFormat } from "../../requests.ts";
import { type ColumnShape, namesOf, placeOf, type TableShape } from "../row-sql.ts";
import { createCopyReader } from "../transfer/copy-text.ts";
import { framingOf } from "../transfer/framing.ts";
import { createRecordBounds } from "../transfer/record-bounds.ts";
import type { Connection } from "./connection.ts";
import { lineOfCopy } from "./copy-line.ts";
import { postgresDialect } from "./dialect.ts";
import { exportStatement, insertHead } from "./export-sql.ts";
import { postgresRefusal } from "./failure.ts";

/** The server makes the text: nothing reads a value on the way. */
export async function* exportRows(
  connection: Connection,
  table: TableShape,
  format: ExportFormat,
): AsyncGenerator<Buffer | string> {
  const copied = connection.copyTo(exportStatement(table, format));
  if (format === "csv") return yield* copied;
  const framing = framingOf(format, { csv: "", preamble: "", insert: insertHead(table) });
  const read = createCopyReader(framing);
  for await (const chunk of copied) yield read(chunk);
  yield framing.end();
}

/** One statement, which takes all rows or none. */
export async function importRows(
  connection: Connection,
  table: TableShape,
  columns: readonly ColumnShape[],
  csv: AsyncIterable<Buffer>,
): Promise<number> {
  const into = `${placeOf(postgresDialect, table)} (${namesOf(postgresDialect, columns)})`;
  const sql = `copy ${into} from stdin (format csv, header, encoding 'UTF8')`;
  try {
    return await connection.copyFrom(sql, bounded(csv));
  } catch (error) {
    const refusal = postgresRefusal(error);
    const line = error instanceof pg.DatabaseError ? lineOfCopy(error.where ?? "", table.name) : null;
    if (refusal === null || line === null) throw error;
    throw new Refused("QUERY_ERROR", `Line ${line}: ${refusal.message}`, { cause: error });
  }
}

async function* bounded(csv: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const bounds = createRecordBounds(limits.importRowLengthMax);
  for await (const chunk of csv) {
    bounds.push(chunk);
    yield chunk;
  }
  bounds.end();
}
