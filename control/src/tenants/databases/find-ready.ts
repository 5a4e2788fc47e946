import { databaseNames } from "@svc/proto";
import { isForTenant } from "../../fleet/database-tables/table.ts";
import { openAdminPassword, openTenantPassword } from "../../fleet/databases/secrets.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { CannotOpen, type Secrets } from "../../stores/secrets.ts";
import { getReadyBranch } from "./endpoints/access.ts";
import { serverSpecOf } from "./facts.ts";
import type { FindReadyBranch, ReadyBranch } from "./ready-branch.ts";
import type { DatabaseAddress } from "./sql/line.ts";
import type { Login } from "./sql/requests.ts";

/** Whom the platform logs in as, and where each engine lets it in. */
export const administrator = "svc_admin";
const adminDatabase = { postgres: "postgres", mariadb: "mysql" } as const;

/** The login of the platform at a branch's server. */
export const adminLogin = ({ engine }: Pick<Branch, "engine">, password: string): Login => ({
  user: administrator,
  password,
  database: adminDatabase[engine],
});

/**
 * Where the branch's server is that is wanted; null while it is on no node, and while it could be written to although the
 * branch is read-only.
 */
export async function findServer(db: Db, databaseId: string): Promise<DatabaseAddress | null> {
  const server = await db
    .selectFrom("task")
    .innerJoin("database", "database.id", "task.owner_id")
    .select(["task.node_id", "task.epoch", "task.spec", "database.read_only"])
    .where("task.owner_id", "=", databaseId)
    .where("task.kind", "=", "database")
    .where("task.desired", "=", "running")
    .where("task.reaped_at", "is", null)
    .where("task.node_id", "is not", null)
    .orderBy("task.epoch", "desc")
    .limit(1)
    .executeTakeFirst();
  if (!server?.node_id || !isForTenant({ readOnly: server.read_only }, serverSpecOf(server))) return null;
  return { databaseId, nodeId: server.node_id, epoch: String(server.epoch) };
}

/** Throws DATABASE_NOT_READY while it is on no node. */
export async function getServer(db: Db, databaseId: string): Promise<DatabaseAddress> {
  const address = await findServer(db, databaseId);
  if (address !== null) return address;
  throw new Refused("DATABASE_NOT_READY", "The database's server is being started. Try again shortly.");
}

/** Passwords of a branch. Throws DATABASE_NOT_READY when this replica has not the key that they are sealed with. */
export function loginsOf(secrets: Secrets, branch: Branch): ReadyBranch["credentials"] {
  const { database, role } = databaseNames(branch.id);
  try {
    return {
      tenant: { user: role, password: openTenantPassword(secrets, branch), database },
      admin: adminLogin(branch, openAdminPassword(secrets, branch)),
    };
  } catch (cause) {
    if (!(cause instanceof CannotOpen)) throw cause;
    throw new Refused("DATABASE_NOT_READY", "The database's credentials cannot be read now.", { cause });
  }
}

export const createFindReadyBranch =
  (secrets: Secrets): FindReadyBranch =>
  async (db, caller, projectId, channel) => {
    const { project, plan, branch } = await getReadyBranch(db, caller, { id: projectId, channel });
    return {
      branch: {
        ...{ projectId, ownerId: project.owner_id, channel, engine: branch.engine, readOnly: branch.read_only },
        readOnlySoft: branch.read_only && branch.read_only_soft === true,
        ...{ sizeLimitMb: plan.db_size_mb, connectionLimit: plan.db_connection_limit },
      },
      address: await getServer(db, branch.id),
      credentials: loginsOf(secrets, branch),
    };
  };
