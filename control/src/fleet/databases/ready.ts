import { type Channel, databaseUrl } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { openTenantPassword } from "./secrets.ts";

/** The variable that tells an app where its database is. */
export const databaseVariable = "DATABASE_URL";

/** Branches of the projects that can be used. A channel has its own or none: it never gets another channel's. */
export const listReadyBranches = (db: Db, projectIds: readonly string[]): Promise<Branch[]> =>
  db
    .selectFrom("database")
    .selectAll()
    .where("project_id", "=", sql<string>`any(${[...new Set(projectIds)]}::uuid[])`)
    .where("status", "=", "ready")
    .execute();

/** The branch of a channel among those of `listReadyBranches`; null: none can be used. */
export const branchOf = (
  branches: readonly Branch[],
  { project_id, channel }: { project_id: string; channel: Channel },
): Branch | null => branches.find((branch) => branch.project_id === project_id && branch.channel === channel) ?? null;

/** The address by which apps of its channel reach a branch from every node, with its password. Throws `CannotOpen`. */
export const openDatabaseUrl = (secrets: Secrets, branch: Branch): string =>
  databaseUrl({ ...branch, password: openTenantPassword(secrets, branch) });
