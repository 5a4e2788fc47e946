import type { Caller } from "../auth/caller.ts";
import type { Db } from "../db/pool.ts";

export interface AuditEntry {
  /** Null when nobody was signed in. */
  caller: Pick<Caller, "userId" | "tokenId"> | null;
  address: string;
  /** noun.verb, as in "project.create". */
  action: string;
  /** Id of what was acted on. */
  target?: string;
  /** Names and counts; never a value, a password, or a body. */
  detail?: Record<string, unknown>;
}

/** Adds a line to the audit log, in the transaction of what it is about. */
export async function recordAudit(db: Db, { caller, address, action, target, detail = {} }: AuditEntry): Promise<void> {
  await db
    .insertInto("audit")
    .values({
      user_id: caller?.userId ?? null,
      token_id: caller?.tokenId ?? null,
      action,
      target: target ?? null,
      address,
      detail: JSON.stringify(detail),
    })
    .execute();
}
