import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { SizeRecord } from "./ready-branch.ts";

/** Of each branch the newest samples are kept. */
const samplesKept = 90;

export const sizeRecord: SizeRecord = {
  async saveSize(db, databaseId, sizeBytes) {
    await db.updateTable("database").set({ size_bytes: sizeBytes }).where("id", "=", databaseId).execute();
  },

  async listSizeSamples(db, databaseId, max) {
    const newest = await db
      .selectFrom("database_sample")
      .select(["sampled_at as sampledAt", "size_bytes as sizeBytes"])
      .where("database_id", "=", databaseId)
      .orderBy("sampled_at", "desc")
      .limit(max)
      .execute();
    return newest.toReversed();
  },
};

/** Adds one sample of now, and lets go of what is older than those that are kept. */
export async function insertSizeSample(tx: Db, databaseId: string, sizeBytes: number): Promise<void> {
  await tx.insertInto("database_sample").values({ database_id: databaseId, size_bytes: sizeBytes }).execute();
  await sql`
    delete from database_sample where database_id = ${databaseId} and sampled_at <= (
      select sampled_at from database_sample where database_id = ${databaseId}
      order by sampled_at desc offset ${samplesKept} limit 1)`.execute(tx);
}
