import { sql } from "kysely";
import type { Db } from "./pool.ts";

/**
 * Tells the replicas that listen to `topic`, once the transaction is committed; several that say the same in one transaction
 * are one. `about` narrows down what changed, where the topic has that.
 */
export async function notify(db: Db, topic: string, about = ""): Promise<void> {
  await sql`select pg_notify(${topic}, ${about})`.execute(db);
}

/** The same as a column of what a statement returns: without a statement of its own. A row that is not written tells nobody. */
export const notifying = (topic: string, about = "") => sql<unknown>`pg_notify(${topic}, ${about})`.as("told");
