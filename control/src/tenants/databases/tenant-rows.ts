import { sql, type UpdateObject } from "kysely";
import type { Database } from "../../stores/db/gen/tables.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import { doubted, lockBranch, wakeBranch } from "./store.ts";

/**
 * What is written down of what came of a password that was brought to a branch's server. `read` is the branch as it was before.
 * Not the same any more is one that somebody else moved, or whose password was replaced, by its owner or by another master key:
 * the server may then have one of before, also from a worker that had stalled, so the tenant is doubted, and given the right one
 * in any case: it is looked at again.
 */
export interface TenantRows {
  /** Nobody knows whether it arrived: nothing is written of a branch that is the same still. */
  cutOff(read: Branch): Promise<void>;
  /** Role and database are as they should be, with that limit. */
  brought(read: Branch, connectionLimit: number): Promise<void>;
  /** The role has the password that was to take the place of the other, and now does; `secret` is it, sealed as that. */
  rotated(read: Branch, secret: Buffer): Promise<void>;
}

export function tenantRows(db: Db): TenantRows {
  const lookAgain = (
    read: Branch,
    change: (isSame: boolean, now: Branch) => UpdateObject<Database, "database"> | null,
  ) =>
    db.transaction().execute(async (tx) => {
      const now = await lockBranch(tx, read.id);
      const set = now && change(isSameBranch(read, now), now);
      if (now === null || set === null) return;
      await tx.updateTable("database").set(set).where("id", "=", now.id).execute();
      // Somebody else may have its work by now, and have ended it.
      if (set === doubted) await wakeBranch(tx, now.id);
    });
  return {
    cutOff: (read) => lookAgain(read, (isSame) => (isSame ? null : doubted)),
    brought: (read, connectionLimit) =>
      lookAgain(read, (isSame, now) =>
        isSame && now.tenant_doubts === read.tenant_doubts
          ? { tenant_at: sql<Date>`clock_timestamp()`, role_connection_limit: connectionLimit }
          : doubted,
      ),
    rotated: (read, secret) => lookAgain(read, (isSame) => (isSame ? { secret, pending_secret: null } : doubted)),
  };
}

type Passwords = Pick<Branch, "secret" | "pending_secret">;

/** Whether nobody has asked for another password since, or brought one to the server. */
const hasSamePassword = (a: Passwords, b: Passwords): boolean =>
  a.secret.equals(b.secret) &&
  (a.pending_secret === null ? b.pending_secret === null : b.pending_secret?.equals(a.pending_secret) === true);

/** Whether what was brought to the server is what it is to have. */
export const isSameBranch = (read: Branch, now: Branch): boolean =>
  now.status === read.status && hasSamePassword(read, now);

/** Whether what was proven there is still so. One of before somebody doubted it says nothing of now. */
export const isSameTenant = (read: Branch, now: Branch): boolean =>
  now.tenant_doubts === read.tenant_doubts && hasSamePassword(read, now);
