import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** What every authenticated call may touch. */
const volatileColumns: Readonly<Record<string, readonly string[]>> = { "public.api_token": ["last_used_at"] };
/** Counts of who came from where, which are nobody's data. */
const volatileTables: ReadonlySet<string> = new Set(["public.attempt_bucket"]);

/** A digest of the rows of each table: equal before and after means that nothing was changed. */
export async function snapshot(db: Db): Promise<Record<string, string>> {
  const { rows: tables } = await sql<{ schema: string; name: string }>`
    select table_schema as schema, table_name as name from information_schema.tables
    where table_schema in ('public', 'auth') and table_type = 'BASE TABLE' order by 1, 2`.execute(db);
  const digests: Record<string, string> = {};
  for (const { schema, name } of tables) {
    const table = `${schema}.${name}`;
    if (volatileTables.has(table)) continue;
    const left = sql.join(
      [sql`to_jsonb(t)`, ...(volatileColumns[table] ?? []).map((column) => sql`${column}::text`)],
      sql` - `,
    );
    const { rows } = await sql<{ digest: string }>`
      select md5(coalesce(string_agg(row, E'\n' order by row), '')) as digest
      from (select (${left})::text as row from ${sql.id(schema, name)} t) rows`.execute(db);
    digests[table] = rows[0]?.digest ?? "";
  }
  return digests;
}
