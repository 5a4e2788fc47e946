import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import type { Login, SqlValue } from "../../requests.ts";
import { asSocket } from "../socket.ts";
import { CountingCursor } from "./counting-cursor.ts";
import { valueReader } from "./values.ts";

/** Of a statement whose rows may be more than are wanted. */
export interface Portion {
  columns: string[];
  rows: SqlValue[][];
  rowCount: number | null;
  isTruncated: boolean;
}

export interface Connection {
  id: number;
  /**
   * Runs one statement, and never more: the extended protocol takes no second one. Fetches at most `rowsMax` rows, and counts up to
   * `countedMax` where there are more.
   */
  run(sql: string, values: readonly (string | null)[], rowsMax: number, countedMax?: number): Promise<Portion>;
  /** What COPY sends for `sql`. */
  copyTo(sql: string): AsyncIterable<Buffer>;
  /** Has COPY take `bytes` for `sql`. How many rows it took. */
  copyFrom(sql: string, bytes: AsyncIterable<Buffer>): Promise<number>;
  /** Whether the session is in a transaction that may go on. */
  isInTransaction(): boolean;
}

interface ReadyForQuery {
  status: string;
}

const types = { getTypeParser: (typeId: number) => valueReader(typeId) } as unknown as pg.CustomTypesConfig;

/** Logs in over `line`. `settings` hold for the session until it says otherwise. */
export async function connectPostgres(
  line: Duplex,
  login: Login,
  settings: Readonly<Record<string, string>>,
): Promise<Connection> {
  const client = new pg.Client({
    ...login,
    stream: () => asSocket(line),
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(" "),
  });
  const lost = Promise.withResolvers<never>();
  lost.promise.catch(() => {});
  client.on("error", lost.reject);
  client.on("end", () => lost.reject(new Error("the connection ended")));
  let status = "";
  await Promise.race([client.connect(), lost.promise]);
  const { connection, processID } = client as unknown as { connection: NodeJS.EventEmitter; processID: number };
  connection.on("readyForQuery", (message: ReadyForQuery) => {
    status = message.status;
  });
  return {
    id: processID,
    run: (sql, values, rowsMax, countedMax = rowsMax) =>
      Promise.race([fetchRows(client, { sql, values }, { rowsMax, countedMax }), lost.promise]),
    copyTo: (sql) => client.query(copyTo(sql)),
    async copyFrom(sql, bytes) {
      const copy = client.query(copyFrom(sql));
      await Promise.race([pipeline(bytes, copy), lost.promise]);
      return copy.rowCount;
    },
    isInTransaction: () => status === "T",
  };
}

async function fetchRows(
  client: pg.Client,
  { sql, values }: { sql: string; values: readonly (string | null)[] },
  { rowsMax, countedMax }: { rowsMax: number; countedMax: number },
): Promise<Portion> {
  // Neither objects, which lose columns of one name, nor values that the driver has read.
  const cursor = client.query(new CountingCursor<SqlValue[]>(sql, [...values], { rowMode: "array", types }));
  const { rows, result } = await new Promise<{ rows: SqlValue[][]; result: pg.QueryResult }>((resolve, reject) => {
    cursor.read(rowsMax + 1, (error, rows, result) => (error ? reject(error) : resolve({ rows, result })));
  });
  const columns = result.fields.map(({ name }) => name);
  // A statement whose rows were all read has told already that it is done.
  if (rows.length <= rowsMax) return { columns, rows, rowCount: result.rowCount ?? null, isTruncated: false };
  const more = countedMax > rows.length ? await cursor.skip(countedMax - rows.length) : 0;
  await cursor.close();
  return { columns, rows: rows.slice(0, rowsMax), rowCount: rows.length + more, isTruncated: true };
}
