// @pure
import type { ExportFormat } from "../../requests.ts";
import { type ColumnShape, namesOf, placeOf, type TableShape } from "../row-sql.ts";
import { postgresDialect } from "./dialect.ts";

const { quote } = postgresDialect;
const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** What a number or a boolean of JSON holds exactly; what is no number, such as NaN, becomes a text by itself. */
const jsonTypes = new Set(["boolean", "smallint", "integer", "real", "double precision"]);

const jsonOf = ({ name, dataType }: ColumnShape): string => {
  const value = jsonTypes.has(dataType) ? quote(name) : `${quote(name)}::pg_catalog.text`;
  return `coalesce(pg_catalog.to_json(${value})::pg_catalog.text, 'null')`;
};

/** A row as an object, made of texts: functions take too few arguments for all columns that a table may have. */
const jsonRow = (columns: readonly ColumnShape[]): string =>
  columns
    .map((column, at) => `${literal(`${at === 0 ? "{" : ","}${JSON.stringify(column.name)}:`)} || ${jsonOf(column)}`)
    .concat("'}'")
    .join(" || ");

const sqlRow = (columns: readonly ColumnShape[]): string => {
  const values = columns.map(({ name }) => `pg_catalog.quote_nullable(${quote(name)}::pg_catalog.text)`);
  return `'(' || ${values.join(" || ',' || ")} || ')'`;
};

/**
 * Has the server write the rows of a table in the format, with the columns of its shape, one a line. Its own CSV; of the others each
 * row is one text.
 */
export function exportStatement(table: TableShape, format: ExportFormat): string {
  const from = placeOf(postgresDialect, table);
  switch (format) {
    case "csv":
      return `copy (select ${namesOf(postgresDialect, table.columns)} from ${from}) to stdout (format csv, header)`;
    case "json":
      return `copy (select ${jsonRow(table.columns)} from ${from}) to stdout`;
    case "sql":
      return `copy (select ${sqlRow(table.columns)} from ${from}) to stdout`;
  }
}

/** What each statement of an export begins with. Identities keep their values. */
export const insertHead = (table: TableShape): string =>
  `insert into ${placeOf(postgresDialect, table)} (${namesOf(postgresDialect, table.columns)}) overriding system value values`;
