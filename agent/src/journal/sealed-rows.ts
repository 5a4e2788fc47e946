import type { DatabaseSync } from "node:sqlite";
import { create, toBinary } from "@bufbuild/protobuf";
import { RunOfferSchema } from "@svc/proto/node";
import type { Seal } from "./seal.ts";

/** Whose journal it is, and where the chain stands. No secrets, and needed without the key too. */
export const ownerSetting = "owner";
export const chainSetting = "chain";
const plainSettings: readonly string[] = [ownerSetting, chainSetting];

/** Columns that are sealed, each value for its row. Settings are text. */
const columns = [
  { table: "placement", id: "id", column: "message" },
  { table: "run", id: "id", column: "offer" },
  { table: "setting", id: "key", column: "value" },
] as const;

/** What a value is sealed for: in another row it does not open. */
export const placeOf = (table: (typeof columns)[number]["table"], id: string): string => `${table}/${id}`;

const rowsOf = (db: DatabaseSync, { table, id, column }: (typeof columns)[number]) =>
  db
    .prepare(`select ${id} as id, ${column} as value from ${table}`)
    .all()
    .map((row) => ({ id: String(row["id"]), value: row["value"] }))
    .filter((row) => table !== "setting" || !plainSettings.includes(row.id));

const write = (db: DatabaseSync, { table, id, column }: (typeof columns)[number]) =>
  db.prepare(`update ${table} set ${column} = ? where ${id} = ?`);

/** Seals what an older agent wrote. */
export function sealRows(db: DatabaseSync, { seal }: Seal): void {
  for (const each of columns) {
    const update = write(db, each);
    for (const { id, value } of rowsOf(db, each)) {
      const sealed = seal(value instanceof Uint8Array ? value : Buffer.from(String(value)), placeOf(each.table, id));
      update.run(each.table === "setting" ? Buffer.from(sealed).toString("base64") : sealed, id);
    }
  }
}

/**
 * Gives up what does not open: containers are found again by their labels, and control says what should be. Of a run
 * only the offer goes, since how far it came decides that it does not run twice. Returns how much that was.
 */
export function dropUnreadable(db: DatabaseSync, { seal, open }: Seal): number {
  let dropped = 0;
  for (const each of columns) {
    const { table, id: key } = each;
    for (const { id, value } of rowsOf(db, each)) {
      const sealed = value instanceof Uint8Array ? value : Buffer.from(String(value), "base64");
      const place = placeOf(table, id);
      if (open(sealed, place) !== null) continue;
      dropped += 1;
      const offer = () => toBinary(RunOfferSchema, create(RunOfferSchema, { attemptId: id }));
      if (table === "run") write(db, each).run(seal(offer(), place), id);
      else db.prepare(`delete from ${table} where ${key} = ?`).run(id);
    }
  }
  return dropped;
}
