import type { Duplex } from "node:stream";
import mysql from "mysql2";
import type { Login, SqlValue } from "../../requests.ts";
import { asSocket } from "../socket.ts";
import { isOneCall } from "./statements.ts";
import { type ResultColumn, valueReader } from "./values.ts";

/** Of the last statement. */
export interface Portion {
  columns: string[];
  rows: SqlValue[][];
  rowCount: number | null;
  isTruncated: boolean;
}

export interface Connection {
  id: number;
  /** Runs a text: one statement, or several where the connection takes several. Keeps at most `rowsMax` rows of the last one. */
  query(sql: string, rowsMax: number): Promise<Portion>;
  /** The rows of one statement as they come, each as the bytes of its values, no faster than they are taken. */
  stream(sql: string): AsyncIterable<{ columns: readonly ResultColumn[]; row: readonly (Buffer | null)[] }>;
  /** Runs one statement with values, which are bound and no part of it. How many rows it concerned. */
  execute(sql: string, values: readonly (string | null)[]): Promise<number>;
}

interface Column extends ResultColumn {
  name: string;
}
interface Done {
  affectedRows: number;
}
interface Events {
  on(event: "fields", heard: (columns: Column[] | undefined, index: number) => void): void;
  on(event: "result", heard: (result: (Buffer | null)[] | Done, index: number) => void): void;
  on(event: "error", heard: (error: Error) => void): void;
  on(event: "end", heard: () => void): void;
}

/** Logs in over `line`. `severalStatements`: a text may be more than one. */
export async function connectMariadb(
  line: Duplex,
  login: Login,
  { severalStatements }: { severalStatements: boolean },
): Promise<Connection> {
  const connection = mysql.createConnection({
    ...login,
    stream: () => asSocket(line),
    multipleStatements: severalStatements,
    charset: "utf8mb4",
    disableEval: true,
    // Nothing of this machine is ever sent to a server that asks for it.
    flags: ["-LOCAL_FILES"],
  } as mysql.ConnectionOptions);
  const lost = Promise.withResolvers<never>();
  lost.promise.catch(() => {});
  connection.on("error", lost.reject);
  connection.on("end", () => lost.reject(new Error("the connection ended")));
  const connected = new Promise<void>((resolve, reject) => {
    connection.connect((error) => (error ? reject(error) : resolve()));
  });
  await Promise.race([connected, lost.promise]);
  return {
    id: connection.threadId ?? 0,
    query: (sql, rowsMax) => Promise.race([fetchRows(connection, sql, rowsMax), lost.promise]),
    stream: (sql) => streamRows(connection, sql, lost.promise),
    execute: (sql, values) => Promise.race([execute(connection, sql, values), lost.promise]),
  };
}

/** Each value as the bytes that came: what they mean is read in one place. */
const asBytes = { rowsAsArray: true, typeCast: (field: { buffer(): Buffer | null }) => field.buffer() };
/** Rows that were read ahead; each may be large. */
const rowsAhead = 16;

async function* streamRows(connection: mysql.Connection, sql: string, lost: Promise<never>) {
  const query = connection.query({ sql, ...asBytes } as mysql.QueryOptions);
  let columns: readonly ResultColumn[] = [];
  (query as unknown as Events).on("fields", (found = []) => {
    columns = found;
  });
  const rows = query.stream({ highWaterMark: rowsAhead });
  // It hears of errors of the server, and of nothing when the way to it breaks.
  lost.catch((error: Error) => rows.destroy(error));
  for await (const row of rows) yield { columns, row: row as (Buffer | null)[] };
}

function fetchRows(connection: mysql.Connection, sql: string, rowsMax: number): Promise<Portion> {
  const events = connection.query({ sql, ...asBytes } as mysql.QueryOptions) as unknown as Events;
  return new Promise((resolve, reject) => {
    let last: Portion = { columns: [], rows: [], rowCount: null, isTruncated: false };
    let readers: ReturnType<typeof valueReader>[] = [];
    // What a procedure gives is followed by the word that it has ended.
    const isCall = isOneCall(sql);
    events.on("fields", (columns) => {
      // Of what gives no rows its result says all.
      if (columns === undefined) return;
      last = { columns: columns.map(({ name }) => name), rows: [], rowCount: 0, isTruncated: false };
      readers = columns.map(valueReader);
    });
    events.on("result", (result) => {
      if (!Array.isArray(result)) {
        if (isCall && last.columns.length > 0) return;
        last = { columns: [], rows: [], rowCount: result.affectedRows, isTruncated: false };
      } else {
        last.rowCount = (last.rowCount ?? 0) + 1;
        last.isTruncated = last.rowCount > rowsMax;
        if (!last.isTruncated) last.rows.push(result.map((value, at) => readers[at]?.(value) ?? null));
      }
    });
    events.on("error", reject);
    events.on("end", () => resolve(last));
  });
}

function execute(connection: mysql.Connection, sql: string, values: readonly (string | null)[]): Promise<number> {
  return new Promise((resolve, reject) => {
    connection.execute<mysql.ResultSetHeader>(sql, [...values], (error, { affectedRows } = {} as never) =>
      error ? reject(error) : resolve(affectedRows),
    );
  });
}
