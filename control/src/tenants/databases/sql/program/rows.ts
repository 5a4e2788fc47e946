import { Refused } from "../../../../stores/refused.ts";
import type { Asked, Given, SqlValue } from "../requests.ts";
import {
  type Cell,
  cellsOf,
  columnProblem,
  countRows,
  deleteRow,
  insertRow,
  keyOf,
  orderOf,
  type RowProblem,
  type RowStatement,
  selectRows,
  shownName,
  type TableShape,
  updateRow,
} from "./row-sql.ts";
import type { Session } from "./session.ts";

const refused = ({ code, message }: RowProblem): Refused => new Refused(code, message);

/** Throws TABLE_NOT_FOUND. */
export async function getTable(session: Session, name: string): Promise<TableShape> {
  const table = await session.findTable(name);
  if (table === null) throw new Refused("TABLE_NOT_FOUND", `There is no table ${shownName(name)}.`);
  return table;
}

export async function readRows(session: Session, asked: Asked<"rows">): Promise<Given<"rows">> {
  const table = await getTable(session, asked.table);
  const { orderBy, dir, limit, offset } = asked;
  if (orderBy !== null && !table.columns.some(({ name }) => name === orderBy)) {
    throw refused(columnProblem(table, orderBy));
  }
  const page = { orderBy: orderOf(session.dialect, table, orderBy), dir, limit, offset };
  const { rows } = await session.run(selectRows(session.dialect, table, page));
  const show = (value: SqlValue, at: number): SqlValue => {
    const column = table.columns[at];
    return column === undefined ? value : session.dialect.shown(column, value);
  };
  return {
    columns: table.columns.map(({ name, dataType }) => ({ name, dataType })),
    rows: rows.slice(0, limit).map((row) => row.map(show)),
    approxTotal: table.approxRows,
    truncated: rows.length > limit,
  };
}

export async function countTable(session: Session, asked: Asked<"count">): Promise<Given<"count">> {
  const table = await getTable(session, asked.table);
  const { rows } = await session.run(countRows(session.dialect, table));
  return { count: Number(rows[0]?.[0] ?? 0) };
}

export async function insertOne(session: Session, asked: Asked<"insert">): Promise<Given<"insert">> {
  const table = await getTable(session, asked.table);
  const { sql, values } = insertRow(session.dialect, table, getCells(session, table, asked.values));
  const { rows, rowCount } = await session.run(sql, values);
  // A table without columns has rows all the same; a trigger may have kept one out.
  const isReturned = session.dialect.returnsRows && rowCount !== 0;
  return {
    row: isReturned ? table.columns.map(({ name }, at) => [name, rows[0]?.[at] ?? null]) : null,
    rowCount: rowCount ?? 0,
  };
}

export async function updateOne(session: Session, asked: Asked<"update">): Promise<Given<"update">> {
  const table = await getTable(session, asked.table);
  const pk = getKey(session, table, asked.pk);
  const changes = getCells(session, table, asked.changes);
  if (changes.length === 0) throw new Refused("INVALID_BODY", '"changes" names no column.');
  return { rowCount: await changeOne(session, updateRow(session.dialect, table, pk, changes)) };
}

export async function deleteOne(session: Session, asked: Asked<"delete">): Promise<Given<"delete">> {
  const table = await getTable(session, asked.table);
  return { rowCount: await changeOne(session, deleteRow(session.dialect, table, getKey(session, table, asked.pk))) };
}

function getCells(session: Session, table: TableShape, pairs: Asked<"insert">["values"]): Cell[] {
  const cells = cellsOf(session.dialect, table, pairs);
  if ("code" in cells) throw refused(cells);
  return cells;
}

function getKey(session: Session, table: TableShape, pk: Asked<"delete">["pk"]): Cell[] {
  const cells = keyOf(session.dialect, table, pk);
  if ("code" in cells) throw refused(cells);
  return cells;
}

/** A key names one row. Where it names more all the same (children of a parent table have keys of their own), nothing is changed. */
async function changeOne(session: Session, { sql, values }: RowStatement): Promise<number> {
  await session.run("begin");
  const { rowCount } = await session.run(sql, values);
  if (rowCount === null || rowCount > 1) {
    await session.run("rollback");
    throw new Refused("QUERY_ERROR", `The key names ${rowCount ?? "several"} rows. Nothing was changed.`);
  }
  await session.run("commit");
  return rowCount;
}
