// @pure
import type { SqlRefusal, SqlValue } from "../requests.ts";

/** A column as the engine's catalog has it. */
export interface ColumnShape {
  name: string;
  /** As the engine writes it. */
  dataType: string;
  /**
   * What JSON values it takes besides text, numbers and booleans, and whether its text is bytes in hexadecimal, or the same of a whole
   * number that is kept as bits.
   */
  holds: "json" | "bytes" | "bits" | "other";
  /** The engine computes it, and takes no value for it. */
  isGenerated: boolean;
}

/** A table as the engine's catalog has it. Names of a request are looked up here, and only those found here get into SQL. */
export interface TableShape {
  /** Of the schema, or of the database. */
  schema: string;
  name: string;
  columns: readonly ColumnShape[];
  /** In the order of the key; empty without one. */
  primaryKey: readonly string[];
  /** The engine's estimate. */
  approxRows: number;
}

/** What a value becomes in a statement: how it stands there, and what is bound to it. */
export interface Bound {
  text: string;
  value: string | null;
}

type Json = unknown;

/** How an engine writes things. */
export interface Dialect {
  quote(name: string): string;
  /** Of the statement's value number `position`, from 1. `value` is text of the column's type. */
  bind(column: ColumnShape, value: string | null, position: number): Bound;
  /** The same of what the column is to be equal to. */
  bindKey: Dialect["bind"];
  /** How the rows of a column are asked for, and what such a value is shown as. */
  selected(column: ColumnShape): string;
  shown(column: ColumnShape, value: SqlValue): SqlValue;
  textOf(column: ColumnShape, value: number | boolean): string;
  /** Whether a value of a key is one of the column. Of what it is not, the engine would make one that another row may have. */
  isKey(column: ColumnShape, value: Json): boolean;
  /** Columns of any table that tell its rows apart; none where the engine has no such. */
  rowPlace: readonly string[];
  /** Of a row without any value. */
  insertDefaults: string;
  returnsRows: boolean;
}

export interface RowStatement {
  sql: string;
  values: (string | null)[];
}

/** Why a request about rows is refused. */
export interface RowProblem {
  code: SqlRefusal;
  message: string;
}

/** A column of the table with what it is to hold, or be equal to. */
export interface Cell {
  column: ColumnShape;
  value: string | null;
}

const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(", ");

/** Columns of the table with values in the engine's text, or why that cannot be. */
export function cellsOf(
  dialect: Dialect,
  table: TableShape,
  pairs: readonly (readonly [string, Json])[],
): Cell[] | RowProblem {
  const cells: Cell[] = [];
  for (const [name, value] of pairs) {
    const column = table.columns.find((each) => each.name === name);
    if (column === undefined) return columnProblem(table, name);
    if (typeof value === "object" && value !== null && column.holds !== "json") {
      const message = `Column ${JSON.stringify(name)} (${column.dataType}) takes no object and no array. Send the engine's own text.`;
      return { code: "INVALID_BODY", message };
    }
    if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) {
      // Whoever reads JSON has rounded it by now: it would be another row, or another number.
      const message = `Column ${JSON.stringify(name)}: a whole number of more than 15 digits loses some on its way. Send it as text.`;
      return { code: "INVALID_BODY", message };
    }
    if (typeof value === "number" && column.holds === "bits" && !(Number.isInteger(value) && value >= 0)) {
      const message = `Column ${JSON.stringify(name)} (${column.dataType}) takes whole numbers from 0, and text such as 0x05.`;
      return { code: "INVALID_BODY", message };
    }
    cells.push({ column, value: textOf(dialect, column, value) });
  }
  return cells;
}

/** Longer than any name of a table or column is. */
const shownNameLength = 100;

/** A name that may be of nothing, and any text, as it is told. */
export const shownName = (name: string): string =>
  JSON.stringify(name.length > shownNameLength ? `${name.slice(0, shownNameLength)}…` : name);

export const columnProblem = (table: TableShape, name: string): RowProblem => ({
  code: "COLUMN_NOT_FOUND",
  message: `Table ${JSON.stringify(table.name)} has no column ${shownName(name)}.`,
});

function textOf(dialect: Dialect, column: ColumnShape, value: Json): string | null {
  if (value === null) return null;
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value === "boolean" || typeof value === "number") return dialect.textOf(column, value);
  return JSON.stringify(value);
}

/** Columns of the primary key with the values of a row, or why none can be told by `pk`. */
export function keyOf(
  dialect: Dialect,
  table: TableShape,
  pk: readonly (readonly [string, Json])[],
): Cell[] | RowProblem {
  const cells = keyProblem(table, pk) ?? cellsOf(dialect, table, pk);
  if ("code" in cells) return cells;
  const at = cells.findIndex(({ column }, each) => !dialect.isKey(column, pk[each]?.[1]));
  const column = cells[at]?.column;
  if (column === undefined) return cells;
  const shown = shownName(String(pk[at]?.[1]));
  const message = `Column ${JSON.stringify(column.name)} (${column.dataType}) has no value ${shown}. Send the key as its row shows it.`;
  return { code: "QUERY_ERROR", message };
}

/** Why the columns that `pk` names are no key; null when they are. */
export function keyProblem(table: TableShape, pk: readonly (readonly [string, Json])[]): RowProblem | null {
  if (table.primaryKey.length === 0) {
    const message = `Table ${JSON.stringify(table.name)} has no primary key, so single rows cannot be changed.`;
    return { code: "NO_PRIMARY_KEY", message };
  }
  const unknown = pk.find(([name]) => !table.columns.some((column) => column.name === name));
  if (unknown !== undefined) return columnProblem(table, unknown[0]);
  const named = new Set(pk.map(([name]) => name));
  const isExact = named.size === table.primaryKey.length && table.primaryKey.every((name) => named.has(name));
  if (!isExact) {
    return { code: "INVALID_BODY", message: `"pk" must name exactly the primary key: ${quoted(table.primaryKey)}.` };
  }
  const empty = pk.find(([, value]) => value === null);
  if (empty === undefined) return null;
  return { code: "INVALID_BODY", message: `Column ${JSON.stringify(empty[0])} of the primary key is never null.` };
}

export const placeOf = (dialect: Dialect, table: TableShape): string =>
  `${dialect.quote(table.schema)}.${dialect.quote(table.name)}`;

export const namesOf = (dialect: Dialect, columns: readonly ColumnShape[]): string =>
  columns.map(({ name }) => dialect.quote(name)).join(", ");

/**
 * By what pages are ordered. With a column also by what tells rows apart: those with one value have no order of their own, and a row
 * could be on no page.
 */
export function orderOf(
  { rowPlace }: Pick<Dialect, "rowPlace">,
  { primaryKey, columns }: TableShape,
  orderBy: string | null,
): string[] {
  if (orderBy === null) return [...primaryKey];
  const all = columns.map(({ name }) => name);
  const last = [primaryKey, rowPlace, all].find(({ length }) => length > 0) ?? [];
  return [...new Set([orderBy, ...last])];
}

/**
 * Reads a page. `orderBy`: see `orderOf`. One row more than `limit` tells whether there are more.
 */
export function selectRows(
  dialect: Dialect,
  table: TableShape,
  { orderBy, dir, limit, offset }: { orderBy: readonly string[]; dir: "asc" | "desc"; limit: number; offset: number },
): string {
  const order = orderBy.map((name) => `${dialect.quote(name)} ${dir}`).join(", ");
  const by = order === "" ? "" : ` order by ${order}`;
  return `select ${table.columns.map(dialect.selected).join(", ")} from ${placeOf(dialect, table)}${by} limit ${limit + 1} offset ${offset}`;
}

export const countRows = (dialect: Dialect, table: TableShape): string =>
  `select count(*) from ${placeOf(dialect, table)}`;

export function insertRow(dialect: Dialect, table: TableShape, cells: readonly Cell[]): RowStatement {
  const bound = cells.map(({ column, value }, at) => dialect.bind(column, value, at + 1));
  const names = namesOf(
    dialect,
    cells.map(({ column }) => column),
  );
  const what =
    cells.length === 0 ? dialect.insertDefaults : `(${names}) values (${bound.map(({ text }) => text).join(", ")})`;
  const returning =
    dialect.returnsRows && table.columns.length > 0 ? ` returning ${namesOf(dialect, table.columns)}` : "";
  return {
    sql: `insert into ${placeOf(dialect, table)} ${what}${returning}`,
    values: bound.map(({ value }) => value),
  };
}

export function updateRow(
  dialect: Dialect,
  table: TableShape,
  pk: readonly Cell[],
  changes: readonly Cell[],
): RowStatement {
  const set = equalities(dialect.quote, dialect.bind, changes, 1);
  const where = equalities(dialect.quote, dialect.bindKey, pk, changes.length + 1);
  return {
    sql: `update ${placeOf(dialect, table)} set ${set.texts.join(", ")} where ${where.texts.join(" and ")}`,
    values: [...set.values, ...where.values],
  };
}

export function deleteRow(dialect: Dialect, table: TableShape, pk: readonly Cell[]): RowStatement {
  const where = equalities(dialect.quote, dialect.bindKey, pk, 1);
  return { sql: `delete from ${placeOf(dialect, table)} where ${where.texts.join(" and ")}`, values: where.values };
}

function equalities(quote: Dialect["quote"], bind: Dialect["bind"], cells: readonly Cell[], from: number) {
  const bound = cells.map(({ column, value }, at) => ({ column, ...bind(column, value, from + at) }));
  return {
    texts: bound.map(({ column, text }) => `${quote(column.name)} = ${text}`),
    values: bound.map(({ value }) => value),
  };
}
