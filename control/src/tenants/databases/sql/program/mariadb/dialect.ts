// @pure
import type { Bound, ColumnShape, Dialect } from "../row-sql.ts";

const hexadecimal = /^0x((?:[0-9a-f]{2})*)$/i;

/** Bytes are `0x` and digits. Other text in a column of bytes is those very bytes. */
function bind({ holds }: ColumnShape, value: string | null): Bound {
  if (holds !== "bytes") return { text: "?", value };
  const digits = value === null ? null : (hexadecimal.exec(value)?.[1] ?? Buffer.from(value).toString("hex"));
  return { text: "unhex(?)", value: digits };
}

export const mariadbDialect: Dialect = {
  quote: (name) => `\`${name.replaceAll("`", "``")}\``,
  bind,
  booleanText: (value) => (value ? "1" : "0"),
  insertDefaults: "() values ()",
  returnsRows: false,
};
