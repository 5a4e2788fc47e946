import { sql } from "kysely";
import type { Db } from "../db/pool.ts";

/**
 * Kinds of work that were promised to somebody, or without which something would run or be kept for ever. Each finds by
 * itself what is left to do, also nothing at all: a notice of a month that is over is not sent.
 */
export const resumedKinds: readonly string[] = [
  "alert",
  "alert-look",
  "alert-mail",
  "alert-webhook",
  "apply-limits",
  "backup",
  "database",
  "database-change",
  "delete-user",
  "domain",
  "domain-notice",
  "offsite-fetch",
  "quota-notice",
  "remove",
  "rename",
  "retire",
  "suspension",
  "teardown",
];

/** All other kinds, each with the reason why it stays as it is once it was given up. */
export const notResumed: Readonly<Record<string, string>> = {
  certificate: "the next round of every replica asks for another look",
  copies: "the next round of the leader asks for another look",
  "restore-proof": "the next round of the leader takes it up, or gives it up",
  "database-check": "the next report or the next night asks for another look",
  screenshot: "the next capture of its deployment asks for another look",
  deploy: "its deployment has failed with it, and who made it was told so",
  lifecycle: "who asked for a stop or a start sees that it failed, and may want the opposite by now",
};

/** Queues such work again that was given up after too many failures. Returns how many items. */
export async function resumeWork(db: Db): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ state: "queued", attempt: 0, run_at: sql<Date>`now()`, error: null, finished_at: null })
    .where("kind", "in", resumedKinds)
    .where("state", "=", "failed")
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
