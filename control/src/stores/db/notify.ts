import { sql } from "kysely";
import type { Db } from "./pool.ts";

/** Tells the replicas that listen to `topic`, once the transaction is committed; several in one transaction are one. */
export async function notify(db: Db, topic: string): Promise<void> {
  await sql`select pg_notify(${topic}, '')`.execute(db);
}
