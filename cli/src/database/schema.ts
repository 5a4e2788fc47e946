import { databaseSchemaReply, type databaseTable, databaseView } from "@svc/proto";
import { z } from "zod";
import type { Screen } from "../command.ts";
import type { Context } from "../context.ts";
import { formatBytes, table } from "../format.ts";
import { type Branch, databasePath, failureOf } from "./branch.ts";

export type Table = z.output<typeof databaseTable>;
/** What not every platform says besides. */
const view = databaseView.extend({ definition: z.string().default("") });
export const schemaReply = databaseSchemaReply.extend({
  views: z.array(view),
  truncated: z.boolean().default(false),
});
type View = z.output<typeof view>;
type Column = Table["columns"][number];

/** What there is in a database; warns when that is not all. */
export async function getSchema(context: Context, branch: Branch) {
  const {
    ok: _ok,
    truncated,
    ...schema
  } = await branch.api.get(databasePath(branch, "/schema"), schemaReply, {
    failure: failureOf(branch),
  });
  if (truncated) context.warn("There are more tables than the platform lists");
  return schema;
}

/** A table with all that belongs to it. */
export function renderTable(found: Table, paint: Screen["paint"]): string {
  const { name, approxRowCount, sizeBytes, columns, indexes, foreignKeys } = found;
  return [
    `${paint("bold", name)}  ${paint("dim", `about ${approxRowCount} rows, ${formatBytes(sizeBytes)}`)}`,
    columnLines(columns, paint),
    ...section(
      "Indexes",
      indexes.map((each) => [each.name, each.definition]),
      paint,
    ),
    ...section(
      "Foreign keys",
      foreignKeys.map((each) => [each.name, each.definition]),
      paint,
    ),
  ].join("\n");
}

export const renderView = ({ name, columns }: View, paint: Screen["paint"]): string =>
  `${paint("bold", name)}  ${paint("dim", "view")}\n${columnLines(columns, paint)}`;

function columnLines(columns: readonly Column[], paint: Screen["paint"]): string {
  const rows = columns.map(({ name, dataType, nullable, default: standard, isPrimaryKey }) => [
    `  ${name}`,
    dataType,
    [isPrimaryKey ? "primary key" : "", nullable ? "" : "not null", standard === null ? "" : `default ${standard}`]
      .filter((word) => word !== "")
      .join(", "),
  ]);
  return rows.length === 0 ? paint("dim", "  no columns") : table(rows);
}

function section(title: string, rows: readonly (readonly string[])[], paint: Screen["paint"]): string[] {
  return rows.length === 0
    ? []
    : [`  ${paint("dim", title)}`, table(rows.map(([first = "", ...rest]) => [`    ${first}`, ...rest]))];
}
