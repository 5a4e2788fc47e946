// @pure
import type { ColumnShape, Dialect } from "../row-sql.ts";

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;
// Without a type of its own, so that the server reads the text as what the column holds, and as strictly as on any insert.
const bind = (_: ColumnShape, value: string | null, position: number) => ({ text: `$${position}`, value });

export const postgresDialect: Dialect = {
  quote,
  selected: ({ name }) => quote(name),
  shown: (_, value) => value,
  bind,
  bindKey: bind,
  textOf: (_, value) => String(value),
  isKey: () => true,
  rowPlace: ["tableoid", "ctid"],
  insertDefaults: "default values",
  returnsRows: true,
};
