import { databaseNames } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { sql, type UpdateObject } from "kysely";
import { openAdminPassword, openTenantPassword } from "../../fleet/databases/secrets.ts";
import { verifierOf } from "../../fleet/databases/verifier.ts";
import type { Database } from "../../stores/db/gen/tables.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { type AdminTarget, type DatabaseAdmin, type OpenLine, ServerUnreachable } from "./admin-sql.ts";
import type { FoundBranch } from "./facts.ts";
import { roleConnectionLimit } from "./limits.ts";
import { doubted, lockBranch } from "./store.ts";

export interface TenantWorkDeps {
  clock: Clock;
  db: Db;
  secrets: Secrets;
  openLine: OpenLine;
  admin: DatabaseAdmin;
}

/** What the platform does in a server is small. */
const adminMs = 15_000;

type Passwords = Pick<Branch, "secret" | "pending_secret">;

/** Whether nobody has asked for another password since, or brought one to the server. */
const hasSamePassword = (a: Passwords, b: Passwords): boolean =>
  a.secret.equals(b.secret) &&
  (a.pending_secret === null ? b.pending_secret === null : b.pending_secret?.equals(a.pending_secret) === true);

/** Whether what was brought to the server, or proven there, is still so. One of before somebody doubted it says nothing of now. */
export const isSameTenant = (read: Branch, now: Branch): boolean =>
  now.tenant_doubts === read.tenant_doubts && hasSamePassword(read, now);

/** What is done with a branch's tenant in its server, and what is written down of it. */
export function tenantWork({ clock, db, secrets, openLine, admin }: TenantWorkDeps) {
  /**
   * Writes down what came of a password that was brought to the server. Not the same any more is a branch that somebody else
   * moved, or whose password was replaced, by its owner or by another master key: the server may then have one of before, also
   * from a worker that had stalled, and is to be given the right one in any case.
   */
  const lookAgain = (
    { branch }: FoundBranch,
    change: (isSame: boolean, now: Branch) => UpdateObject<Database, "database"> | null,
  ) =>
    db.transaction().execute(async (tx) => {
      const now = await lockBranch(tx, branch.id);
      const set = now && change(now.status === branch.status && hasSamePassword(branch, now), now);
      if (now && set) await tx.updateTable("database").set(set).where("id", "=", now.id).execute();
    });

  /** Runs `act` on the server with some time for it. Throws `ServerUnreachable` when there is none by now. */
  async function onServer<T>(
    { branch, address }: FoundBranch,
    signal: AbortSignal,
    act: (target: AdminTarget, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (address === null) throw new ServerUnreachable("it is on no node");
    const bounded = AbortSignal.any([signal, clock.abortAfter(adminMs)]);
    const connect = (each: AbortSignal) => openLine(address, AbortSignal.any([bounded, each]));
    return act(
      { engine: branch.engine, connect, password: openAdminPassword(secrets, branch), turn: branch.project_id },
      bounded,
    );
  }

  /** Brings a password there. One that was cut off may have arrived, and then is to be replaced if it is an old one by now. */
  async function bring(
    found: FoundBranch,
    signal: AbortSignal,
    act: (target: AdminTarget, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    try {
      await onServer(found, signal, act);
    } catch (error) {
      await lookAgain(found, (isSame) => (isSame ? null : doubted));
      throw error;
    }
  }

  return {
    onServer,
    bring,
    lookAgain,

    /** Role and database as they should be, and the tenant let in. */
    async bringTenant(found: FoundBranch, signal: AbortSignal): Promise<void> {
      const { branch, plan } = found;
      const connectionLimit = roleConnectionLimit(plan);
      const verifier = verifierOf(branch.engine, branch.id, openTenantPassword(secrets, branch));
      const { database, role } = databaseNames(branch.id);
      await bring(found, signal, (target, bounded) =>
        admin.createTenant(target, { database, role, verifier, connectionLimit }, bounded),
      );
      await lookAgain(found, (isSame, now) =>
        isSame && now.tenant_doubts === branch.tenant_doubts
          ? { tenant_at: sql<Date>`clock_timestamp()`, role_connection_limit: connectionLimit }
          : doubted,
      );
    },

    /** Whether the branch's own password opens it. */
    isLetIn(found: FoundBranch, signal: AbortSignal): Promise<boolean> {
      const { database, role } = databaseNames(found.branch.id);
      const login = { database, role, password: openTenantPassword(secrets, found.branch) };
      return onServer(found, signal, (target, bounded) => admin.proveLogin(target, login, bounded));
    },
  };
}
