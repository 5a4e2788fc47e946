import { createHash } from "node:crypto";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter, LimiterFull } from "@svc/runtime/limiter";
import { sql } from "kysely";
import type { Db } from "../stores/db/pool.ts";
import type { Caller } from "./caller.ts";
import { retryAfterSeconds } from "./error-handler.ts";
import { ApiError } from "./errors.ts";

/**
 * What is made for an account is made under a lock of it. Most requests of one account wait for one another here, as each
 * that waits for a lock holds one of the few connections to the database that everybody uses.
 */
const atOnce = { perKey: 3 };
const waiters = { total: 1_000, perKey: 100 };
/** Together with the wait for the lock within what clients wait for an answer. */
const turnMs = 20_000;

/** How long a key is remembered. */
const rememberedHours = 24;

export interface Attempt<T extends object> {
  caller: Pick<Caller, "userId" | "tokenId">;
  /** Null: the client sent no key, and each request is a new one. */
  idempotencyKey: string | null;
  /** What makes two requests the same one: route, ids, body. */
  request: readonly unknown[];
  status: number;
  /**
   * For a payload with a secret that is shown once: the id of what was made, which is all that is kept. A repeated
   * request still makes nothing, and is refused with that id.
   */
  shownOnce?: (payload: T) => string;
}

/** Another key of the same user counts as another request, so that a replay shows nothing that the key may not see. */
const requestHash = ({ caller, request }: Pick<Attempt<object>, "caller" | "request">) =>
  createHash("sha256")
    .update(JSON.stringify([caller.tokenId, ...request]))
    .digest();

/**
 * Runs `create` in a transaction, at most once per Idempotency-Key: a repeated request gets the first one's
 * payload, also when both are under way at once. A failed one is forgotten. Throws IDEMPOTENCY_CONFLICT
 * when the key was used for something else, or for something that is shown once, and UNAVAILABLE when too many requests
 * of the account are under way.
 */
export type CreateOnce = <T extends object>(attempt: Attempt<T>, create: (tx: Db) => Promise<T>) => Promise<T>;

/** The requests of one server wait for one another. */
export function createOnceIn(clock: Clock, db: Db): CreateOnce {
  const inTurn = createLimiter(atOnce, waiters);
  return async (attempt, create) => {
    const late = clock.abortAfter(turnMs);
    try {
      const turn = { key: attempt.caller.userId, signal: late };
      return await inTurn(() => createInTransaction(db, attempt, create), turn);
    } catch (error) {
      if (error instanceof LimiterFull || error === late.reason)
        throw new ApiError("UNAVAILABLE", { cause: error, retryAfterSeconds });
      throw error;
    }
  };
}

function createInTransaction<T extends object>(
  db: Db,
  attempt: Attempt<T>,
  create: (tx: Db) => Promise<T>,
): Promise<T> {
  return db.transaction().execute(async (tx) => {
    const { idempotencyKey: key, caller, shownOnce } = attempt;
    if (key === null) return create(tx);
    const hash = requestHash(attempt);
    const row = { user_id: caller.userId, key, request_hash: hash, status: attempt.status, body: "null" };
    // Waits for a concurrent request with the same key, then finds its row.
    const claimed = await tx
      .insertInto("idempotency")
      .values(row)
      .onConflict((conflict) =>
        conflict
          .columns(["user_id", "key"])
          .doUpdateSet({ ...row, created_at: sql<Date>`now()` })
          .where("idempotency.created_at", "<", sql<Date>`now() - ${rememberedHours} * interval '1 hour'`),
      )
      .returning("key")
      .executeTakeFirst();
    if (claimed === undefined) {
      const earlier = await recall(tx, caller.userId, key, hash);
      if (shownOnce !== undefined) throw alreadyShown(earlier);
      return earlier as T;
    }
    const payload = await create(tx);
    const kept = shownOnce === undefined ? payload : { id: shownOnce(payload) };
    await tx
      .updateTable("idempotency")
      .set({ body: JSON.stringify(kept) })
      .where("user_id", "=", caller.userId)
      .where("key", "=", key)
      .execute();
    return payload;
  });
}

/** What was kept of the request that used the key first. */
async function recall(tx: Db, userId: string, key: string, hash: Buffer): Promise<unknown> {
  const { request_hash, body } = await tx
    .selectFrom("idempotency")
    .select(["request_hash", "body"])
    .where("user_id", "=", userId)
    .where("key", "=", key)
    .executeTakeFirstOrThrow();
  if (!hash.equals(request_hash)) throw new ApiError("IDEMPOTENCY_CONFLICT");
  return body;
}

function alreadyShown(kept: unknown): ApiError {
  const { id } = kept as { id: string };
  return new ApiError("IDEMPOTENCY_CONFLICT", {
    message: `An earlier request with that Idempotency-Key made ${id}, whose secret was in that reply alone. If it was lost, revoke ${id} and send a new Idempotency-Key.`,
  });
}
