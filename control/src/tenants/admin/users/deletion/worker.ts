import type { Registry } from "@svc/registry";
import type { Log } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import { recheckAfterMs } from "../../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../../stores/work/worker.ts";
import { empty } from "../../../account-registry/contents.ts";
import { listNames, pushesLeftMs } from "../../../account-registry/store.ts";
import { tearDownAll } from "./request.ts";

export interface UserDeletionDeps {
  db: Db;
  /** The cluster's. */
  registry: Registry;
  log: Log;
  /** See `graceMsUsed`. */
  graceMs?: number;
}

/**
 * Requests that were let in before the deletion end before the row does: they fail for what is gone of the user, and
 * not because the user was never there.
 */
const graceMsUsed = 60_000;

/**
 * Work of kind `delete-user`: waits until every project of the user is torn down and nobody can push into their
 * repositories any more, empties those, and deletes the user last. Each round
 * does what there is to do then, also for a project that was being created when the deletion began, so one that is cut
 * off anywhere is simply done again.
 */
export function deleteUserWorker({ db, registry, log, graceMs = graceMsUsed }: UserDeletionDeps): WorkHandler {
  return async (item, signal) => {
    const { userId } = item.payload as { userId: string };
    await db.transaction().execute((tx) => tearDownLate(tx, userId));
    const waits = await db.selectFrom("project").select("id").where("owner_id", "=", userId).limit(1).execute();
    if (waits.length > 0) return { retryAfterMs: recheckAfterMs(item.ageMs), refund: true };
    if (item.ageMs < graceMs) return { retryAfterMs: graceMs - item.ageMs, refund: true };
    const pushesMs = await pushesLeftMs(db, userId);
    if (pushesMs > 0) return { retryAfterMs: pushesMs, refund: true };
    for (const name of await listNames(db, userId)) await empty({ db, registry }, userId, name, signal);
    const gone = await db.transaction().execute((tx) => deleteUser(tx, userId));
    if (!gone) return { retryAfterMs: recheckAfterMs(0), refund: true };
    log.info({ userId, to: "deleted" }, "user");
    return { state: "done" };
  };
}

/** Begins the teardown of projects that came after the deletion was asked for. */
async function tearDownLate(tx: Db, userId: string): Promise<void> {
  await tx.selectFrom("auth.user").select("id").where("id", "=", userId).forNoKeyUpdate().execute();
  await tearDownAll(tx, userId);
}

/**
 * Deletes the user, if nothing of theirs is left to take down. What refers to the user by a foreign key goes with the
 * row. Kept by intent: audit, which outlives whom it tells of, and bootstrap tokens, which admitted machines.
 */
async function deleteUser(tx: Db, userId: string): Promise<boolean> {
  await tx.selectFrom("auth.user").select("id").where("id", "=", userId).forUpdate().execute();
  const project = await tx
    .selectFrom("project")
    .select("id")
    .where("owner_id", "=", userId)
    .limit(1)
    .executeTakeFirst();
  if (project !== undefined) return false;
  await tx.deleteFrom("api_token").where("user_id", "=", userId).execute();
  await tx.deleteFrom("idempotency").where("user_id", "=", userId).execute();
  await tx.deleteFrom("auth.user").where("id", "=", userId).execute();
  return true;
}
