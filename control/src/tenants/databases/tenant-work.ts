import { databaseNames } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { openAdminPassword, openTenantPassword } from "../../fleet/databases/secrets.ts";
import { verifierOf } from "../../fleet/databases/verifier.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { type AdminTarget, type DatabaseAdmin, type OpenLine, ServerUnreachable } from "./admin-sql.ts";
import type { BranchPlan, FoundBranch } from "./facts.ts";
import { roleConnectionLimit } from "./limits.ts";
import type { TenantRows } from "./tenant-rows.ts";

export interface TenantWorkDeps {
  clock: Clock;
  rows: TenantRows;
  secrets: Secrets;
  openLine: OpenLine;
  admin: DatabaseAdmin;
}

/** What the platform does in a server is small. */
const adminMs = 15_000;

/** What is done with a branch's tenant in its server, and what is written down of it. */
export function tenantWork({ clock, rows, secrets, openLine, admin }: TenantWorkDeps) {
  /** Runs `act` on the server with some time for it. Throws `ServerUnreachable` when there is none by now. */
  async function onServer<T>(
    { branch, address }: FoundBranch<BranchPlan>,
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
    found: FoundBranch<BranchPlan>,
    signal: AbortSignal,
    act: (target: AdminTarget, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    try {
      await onServer(found, signal, act);
    } catch (error) {
      await rows.cutOff(found.branch);
      throw error;
    }
  }

  return {
    onServer,
    bring,

    /** Role and database as they should be, and the tenant let in. */
    async bringTenant(found: FoundBranch<BranchPlan>, signal: AbortSignal): Promise<void> {
      const { branch, plan } = found;
      const connectionLimit = roleConnectionLimit(plan);
      const verifier = verifierOf(branch.engine, branch.id, openTenantPassword(secrets, branch));
      const { database, role } = databaseNames(branch.id);
      await bring(found, signal, (target, bounded) =>
        admin.createTenant(target, { database, role, verifier, connectionLimit }, bounded),
      );
      await rows.brought(branch, connectionLimit);
    },

    /** Whether the branch's own password opens it. */
    isLetIn(found: FoundBranch<BranchPlan>, signal: AbortSignal): Promise<boolean> {
      const { database, role } = databaseNames(found.branch.id);
      const login = { database, role, password: openTenantPassword(secrets, found.branch) };
      return onServer(found, signal, (target, bounded) => admin.proveLogin(target, login, bounded));
    },
  };
}
