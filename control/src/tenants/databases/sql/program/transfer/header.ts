// @pure
import { type ColumnShape, columnProblem, type RowProblem, type TableShape } from "../row-sql.ts";
import type { CsvRecord } from "./csv.ts";

/** The columns that the first line of a CSV names, in its order, or why it does not. */
export function columnsOfHeader(table: TableShape, header: CsvRecord | undefined): ColumnShape[] | RowProblem {
  const names = header?.fields ?? [];
  if (names.every((name) => name === null)) {
    return { code: "INVALID_BODY", message: "The first line must name the columns that the file has." };
  }
  const columns: ColumnShape[] = [];
  for (const name of names) {
    const column = table.columns.find((each) => each.name === name);
    if (column === undefined) return columnProblem(table, name ?? "");
    if (columns.includes(column)) {
      return { code: "INVALID_BODY", message: `The first line names column ${JSON.stringify(name)} twice.` };
    }
    columns.push(column);
  }
  return columns;
}
