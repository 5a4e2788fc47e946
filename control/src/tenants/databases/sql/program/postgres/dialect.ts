// @pure
import type { Dialect } from "../row-sql.ts";

export const postgresDialect: Dialect = {
  quote: (name) => `"${name.replaceAll('"', '""')}"`,
  // Without a type of its own, so that the server reads the text as what the column holds, and as strictly as on any insert.
  bind: (_, value, position) => ({ text: `$${position}`, value }),
  textOf: (_, value) => String(value),
  isKey: () => true,
  rowPlace: ["tableoid", "ctid"],
  insertDefaults: "default values",
  returnsRows: true,
};
