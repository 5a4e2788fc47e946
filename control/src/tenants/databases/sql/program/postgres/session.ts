import type { Duplex } from "node:stream";
import { z } from "zod";
import { type Given, type Login, requestShapes } from "../../requests.ts";
import { entriesMax } from "../entries-max.ts";
import type { TableShape } from "../row-sql.ts";
import type { Session, SessionOptions } from "../session.ts";
import { allTables, allViews, counters, oneTable, serverNow } from "./catalog.ts";
import { type Connection, connectPostgres } from "./connection.ts";
import { runQuery } from "./console.ts";
import { postgresDialect } from "./dialect.ts";
import { exportRows, importRows } from "./transfer.ts";

/** Ours are few and small, or bounded by what a line carries. */
const allRows = 100_000;

/** How values are written: exactly, and equally on every server. */
const exactly = {
  DateStyle: "ISO",
  IntervalStyle: "iso_8601",
  TimeZone: "UTC",
  extra_float_digits: "1",
  bytea_output: "hex",
  standard_conforming_strings: "on",
};

/**
 * Whoever asked ends what takes longer than a request may. The bound on time is for the statement of one that was killed itself: nobody would
 * end it.
 */
const bounds = ({ longestMs, lockMs }: Pick<SessionOptions, "longestMs" | "lockMs">) => ({
  statement_timeout: `${longestMs}`,
  idle_in_transaction_session_timeout: "15000",
  client_connection_check_interval: "5000",
  ...(lockMs !== null && { lock_timeout: `${lockMs}` }),
});

/** json, jsonb. */
const jsonTypes = new Set([114, 3802]);

const columnOfCatalog = z.object({
  name: z.string(),
  dataType: z.string(),
  typeId: z.number(),
  isGenerated: z.boolean(),
});
const tableOfCatalog = z.object({
  schema: z.string(),
  name: z.string(),
  approxRows: z.number(),
  columns: z.array(columnOfCatalog),
  primaryKey: z.array(z.string()),
});

/** As the tenant's role, with what that may. */
export async function openPostgres(line: Duplex, login: Login, options: SessionOptions): Promise<Session> {
  const connection = await connectPostgres(line, login, { ...exactly, ...bounds(options) });
  return {
    id: connection.id,
    dialect: postgresDialect,
    run: (sql, values = []) => connection.run(sql, values, allRows),
    findTable: (name) => findTable(connection, name),
    query: (asked) => runQuery(connection, asked),
    schema: () => readSchema(connection),
    listCounters: (max) => listCounters(connection, max),
    exportRows: (table, format) => exportRows(connection, table, format),
    importRows: (table, columns, csv) => importRows(connection, table, columns, csv),
  };
}

async function findTable(connection: Connection, name: string): Promise<TableShape | null> {
  // No name has it, and the server takes none.
  if (name.includes("\0")) return null;
  const { rows } = await connection.run(oneTable, [name.toWellFormed()], 1);
  const text = rows[0]?.[0];
  if (typeof text !== "string") return null;
  const { columns, ...table } = tableOfCatalog.parse(JSON.parse(text));
  return {
    ...table,
    columns: columns.map(({ typeId, ...column }) => ({ ...column, holds: jsonTypes.has(typeId) ? "json" : "other" })),
  };
}

async function readSchema(connection: Connection): Promise<Given<"schema">> {
  const read = async (sql: string) =>
    (await connection.run(sql, [String(entriesMax + 1)], entriesMax + 1)).rows.map(([text]) =>
      JSON.parse(String(text)),
    );
  const tables = await read(allTables);
  const views = await read(allViews);
  const withoutOurs = ({ columns, ...rest }: { columns: { typeId?: number; isGenerated?: boolean }[] }) => ({
    ...rest,
    columns: columns.map(({ typeId: _, isGenerated: __, ...column }) => column),
  });
  // What was dropped since the statement began is in its view of the catalog, and has neither size nor definition.
  const isThere = ({ definition }: { definition: string | null }) => definition !== null;
  const present = tables.slice(0, entriesMax).filter(({ sizeBytes }) => sizeBytes !== null);
  const withWhatIsThere = ({ indexes, foreignKeys, ...table }: (typeof tables)[number]) => ({
    ...table,
    indexes: indexes.filter(isThere),
    foreignKeys: foreignKeys.filter(isThere),
  });
  return requestShapes.schema.gives.parse({
    tables: present.map(withWhatIsThere).map(withoutOurs),
    views: views.slice(0, entriesMax).map(withoutOurs),
    truncated: tables.length > entriesMax || views.length > entriesMax,
  });
}

async function listCounters(connection: Connection, max: number): ReturnType<Session["listCounters"]> {
  const { rows: times } = await connection.run(serverNow, [], 1);
  const { rows } = await connection.run(counters, [String(max)], max);
  return {
    at: String(times[0]?.[0]),
    tables: rows.map(([schema, name, counter, countSql]) => ({
      ...{ schema: String(schema), name: String(name), counter: String(counter) },
      countSql: typeof countSql === "string" ? countSql : null,
    })),
  };
}
