import type { Duplex } from "node:stream";
import { limits } from "@svc/proto/limits";
import { Refused } from "../../../../../stores/refused.ts";
import type { Asked, Given, Login } from "../../requests.ts";
import { entriesMax } from "../entries-max.ts";
import type { TableShape } from "../row-sql.ts";
import type { Session, SessionOptions } from "../session.ts";
import {
  columns,
  counters,
  foreignKeys,
  indexes,
  schemaOf,
  serverNow,
  tableShape,
  tables,
  textLiteral,
  views,
} from "./catalog.ts";
import { type Connection, connectMariadb } from "./connection.ts";
import { mariadbDialect } from "./dialect.ts";
import { readOnlyProblem } from "./read-only.ts";
import { withoutLastRemarks } from "./statements.ts";
import { exportRows, importRows } from "./transfer.ts";

/** Bounded by what a line carries. */
const allRows = 1_000_000;

/**
 * Times are UTC, as everywhere. Whoever asked ends what takes longer than a request may; the bound on time is for the statement of
 * one that was killed itself. Who takes rows slowly is waited for as long.
 */
const settings = ({ longestMs, lockMs }: Pick<SessionOptions, "longestMs" | "lockMs">): string => {
  const seconds = Math.ceil(longestMs / 1000);
  const lock = lockMs === null ? "" : `, lock_wait_timeout = ${Math.ceil(lockMs / 1000)}`;
  return `set session time_zone = '+00:00', max_statement_time = ${seconds}, net_write_timeout = ${seconds}${lock}`;
};

/** As the tenant's role, with what that may. */
export async function openMariadb(
  line: Duplex,
  login: Login,
  { isReadOnlyQuery, ...bounds }: SessionOptions,
): Promise<Session> {
  const connection = await connectMariadb(line, login, { severalStatements: !isReadOnlyQuery });
  await connection.query(settings(bounds), 0);
  return {
    id: connection.id,
    dialect: mariadbDialect,
    async run(sql, values = []) {
      if (values.length > 0) return { rows: [], rowCount: await connection.execute(sql, values) };
      return await connection.query(sql, allRows);
    },
    findTable: (name) => findTable(connection, name),
    query: (asked) => runQuery(connection, asked),
    schema: () => readSchema(connection),
    listCounters: (max) => listCounters(connection, max),
    exportRows: (table, format) => exportRows(connection, table, format),
    importRows: (table, columns, csv) => importRows(connection, table, columns, csv),
  };
}

async function runQuery(connection: Connection, { sql, rollback, readOnly }: Asked<"query">): Promise<Given<"query">> {
  if (rollback) throw new Refused("DRY_RUN_UNAVAILABLE");
  if (readOnly) {
    const problem = readOnlyProblem(sql);
    if (problem !== null) throw new Refused("QUERY_ERROR", problem);
    await connection.query("start transaction read only", 0);
  } else {
    // Spares the server what nobody will see. A statement with a LIMIT of its own has that one.
    await connection.query(`set session sql_select_limit = ${limits.sqlRowsMax + 1}`, 0);
  }
  const text = withoutLastRemarks(sql.toWellFormed());
  const { columns: names, rows, rowCount, isTruncated } = await connection.query(text, limits.sqlRowsMax);
  return { columns: names, rows, rowCount, truncated: isTruncated, rolledBack: false };
}

async function findTable(connection: Connection, name: string): Promise<TableShape | null> {
  const literal = textLiteral(Buffer.from(name).toString("hex"));
  const read = async (sql: string) => (await connection.query(sql, allRows)).rows;
  const [table] = await read(tables(literal, 1));
  if (table === undefined) return null;
  return tableShape(table, await read(columns(literal)), await read(indexes(literal)));
}

async function readSchema(connection: Connection): Promise<Given<"schema">> {
  const read = async (sql: string) => (await connection.query(sql, allRows)).rows;
  const found = {
    tables: await read(tables(null, entriesMax + 1)),
    views: await read(views(entriesMax + 1)),
    columns: await read(columns(null)),
    indexes: await read(indexes(null)),
    foreignKeys: await read(foreignKeys),
  };
  const { tables: allTables, views: allViews } = schemaOf(found);
  return {
    tables: allTables.slice(0, entriesMax),
    views: allViews.slice(0, entriesMax),
    truncated: allTables.length > entriesMax || allViews.length > entriesMax,
  };
}

async function listCounters(connection: Connection, max: number): ReturnType<Session["listCounters"]> {
  const { rows: times } = await connection.query(serverNow, 1);
  const { rows } = await connection.query(counters(max), max);
  return {
    at: String(times[0]?.[0]),
    tables: rows.map(([schema, name, counter, countSql]) => ({
      ...{ schema: String(schema), name: String(name) },
      counter: typeof counter === "string" ? counter : null,
      countSql: typeof countSql === "string" ? countSql : null,
    })),
  };
}
