import { randomBytes } from "node:crypto";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { daysWithSalt } from "./rules.ts";

/** What edges make the keys of visitors of a day with. */
export interface DaySalt {
  /** YYYY-MM-DD, UTC. */
  day: string;
  /** Secret, 32 bytes. */
  salt: Uint8Array;
}

const saltBytes = 32;
export const saltAad = (day: string | undefined): string => `analytics_salt/${day}/salt`;

/** Makes the salts that are due, and destroys those of days that are over. Returns how many went. */
export async function keepSalts({ clock, db, secrets }: { clock: Clock; db: Db; secrets: Secrets }): Promise<number> {
  const days = daysWithSalt(clock.now());
  const values = days.map((day) => ({ day, salt: secrets.seal(randomBytes(saltBytes), saltAad(day)) }));
  await db
    .insertInto("analytics_salt")
    .values(values)
    .onConflict((conflict) => conflict.column("day").doNothing())
    .execute();
  const { numDeletedRows } = await db
    .deleteFrom("analytics_salt")
    .where("day", "<", days[0] ?? "")
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** All of them. Returns how many went. */
export async function destroySalts(db: Db): Promise<number> {
  const { numDeletedRows } = await db.deleteFrom("analytics_salt").executeTakeFirst();
  return Number(numDeletedRows);
}

/** Those of the days that have one, as edges are told them; oldest first. */
export async function loadSalts({
  clock,
  db,
  secrets,
}: {
  clock: Clock;
  db: Db;
  secrets: Secrets;
}): Promise<DaySalt[]> {
  const { rows } = await sql<{ day: string; salt: Buffer }>`
    select day::text, salt from analytics_salt where day::text = any(${daysWithSalt(clock.now())}) order by day`.execute(
    db,
  );
  return rows.map(({ day, salt }) => ({ day, salt: Uint8Array.from(secrets.open(salt, saltAad(day))) }));
}
