import type { Given } from "../requests.ts";
import { type MigrationRow, migrationsOf, migrationsTable, timeColumnOf } from "./applied.ts";
import { selectRows } from "./row-sql.ts";
import type { Session } from "./session.ts";

/** More than any project has. */
const migrationsMax = 10_000;

/** What was applied, oldest first. A view of that name, or a table with other columns, is somebody's own and no record of ours. */
export async function readMigrations(session: Session): Promise<Given<"migrations">> {
  const table = await session.findTable(migrationsTable);
  const time = table === null ? null : timeColumnOf(table.columns.map(({ name }) => name));
  if (table === null || time === null) return { tableExists: false, migrations: [] };
  const shape = { ...table, columns: table.columns.filter(({ name }) => name === "name" || name === time) };
  const page = { orderBy: [time, "name"], dir: "asc", limit: migrationsMax, offset: 0 } as const;
  const { rows } = await session.run(selectRows(session.dialect, shape, page));
  const at = {
    name: shape.columns.findIndex(({ name }) => name === "name"),
    time: shape.columns.findIndex((each) => each.name === time),
  };
  const found = rows.map((row): MigrationRow => ({ name: row[at.name] ?? null, appliedAt: row[at.time] ?? null }));
  return { tableExists: true, migrations: migrationsOf(found) };
}
