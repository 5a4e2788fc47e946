import type { Clock } from "@svc/runtime/clock";
import { type Asked, type Given, provenTablesMax } from "../requests.ts";
import type { Session } from "./session.ts";

/**
 * What the server has of the tenant's tables. Counters are read before rows are counted: what is written meanwhile is in the next
 * look's counters. The smallest are counted first, so that the time is enough for most.
 */
export async function countTables(
  session: Session,
  clock: Clock,
  { isCounted, budgetMs }: Asked<"tables">,
): Promise<Given<"tables">> {
  const { at, tables } = await session.listCounters(provenTablesMax);
  const endMs = clock.steadyMs() + budgetMs;
  const rows = new Map<unknown, number>();
  for (const table of isCounted ? tables.toReversed() : []) {
    if (clock.steadyMs() >= endMs) break;
    if (table.countSql === null) continue;
    const { rows: counted } = await session.run(table.countSql);
    rows.set(table, Number(counted[0]?.[0]));
  }
  return {
    at,
    tables: tables.map((table) => {
      const { schema, name, counter } = table;
      return { schema, name, counter, rows: rows.get(table) ?? null };
    }),
  };
}
