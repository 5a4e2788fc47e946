// @pure
import type { SourceTable } from "../../../stores/db/columns.ts";

/** What was found in a copy that was restored for a look. */
export interface Found {
  tables: readonly { schema: string; name: string; rows: number }[];
  /** There were more tables than it tells of. */
  isCut: boolean;
}

export interface Compared {
  /** Why the copy is not what it should be; null: it is. */
  problem: string | null;
  /** Tables of which the number of rows had to be exactly what it is, and those that only had to be there. */
  exact: number;
  present: number;
}

const keyOf = ({ schema, name }: { schema: string; name: string }): string => JSON.stringify([schema, name]);

/**
 * Compares a restored copy with the branch itself: what that had before the moment that the copy was restored to, and what it had
 * some time after it. A table that is in both was there at that moment. One to which nothing was written in between had as many
 * rows then as were counted; of others nobody can tell. The first that differs is the problem.
 */
export function compareProof(before: readonly SourceTable[], after: readonly SourceTable[], found: Found): Compared {
  const later = new Map(after.map((table) => [keyOf(table), table]));
  const restored = new Map(found.tables.map((table) => [keyOf(table), table]));
  const compared: Compared = { problem: null, exact: 0, present: 0 };
  for (const table of before) {
    const last = later.get(keyOf(table));
    if (last === undefined) continue;
    const { schema, name, counter, rows } = table;
    const there = restored.get(keyOf(table));
    if (there === undefined) {
      if (found.isCut) continue;
      return { ...compared, problem: `The table ${schema}.${name} is missing in it.` };
    }
    if (rows === null || counter === null || counter !== last.counter) {
      compared.present += 1;
      continue;
    }
    if (there.rows !== rows) {
      return { ...compared, problem: `The table ${schema}.${name} has ${there.rows} rows in it, and not ${rows}.` };
    }
    compared.exact += 1;
  }
  return compared;
}
