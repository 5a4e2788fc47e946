import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, DroppedBranch } from "../../../stores/db/tables.ts";
import { isKept } from "../volumes/store.ts";

/** Remembers the branch, which the caller has locked, with all that it needs to come back. Its passwords stay sealed. */
export async function rememberBranch(
  tx: Db,
  branch: Branch,
  { nodeId, keptHours }: { nodeId: string; keptHours: number },
): Promise<void> {
  const { id, project_id, channel, engine, generation, role_connection_limit, read_only, read_only_soft } = branch;
  const { admin_secret, secret, pending_secret, keeper_secret, created_at } = branch;
  await tx
    .insertInto("dropped_database")
    .values((insert) => ({
      ...{ id, project_id, channel, engine, generation, role_connection_limit, read_only, read_only_soft },
      ...{ admin_secret, secret, pending_secret, keeper_secret, created_at, node_id: nodeId },
      owner_id: insert.selectFrom("project").select("owner_id").where("id", "=", project_id),
      purge_at: sql<Date>`now() + ${keptHours} * interval '1 hour'`,
    }))
    .execute();
}

/** A branch that was dropped, held until the transaction ends; null: nobody remembers it. After its project. */
export async function lockDropped(tx: Db, id: string): Promise<DroppedBranch | null> {
  const row = await tx.selectFrom("dropped_database").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
  return row ?? null;
}

const noSecrets = sql`admin_secret = null, secret = null, pending_secret = null, keeper_secret = null`;

/** Removes the passwords of branches that cannot come back any more: nothing of what they had is kept. Of one, or of all. */
export const forgetSecrets = async (db: Db, databaseId: string | null = null): Promise<void> =>
  void (await sql`
    update dropped_database dropped set ${noSecrets}
    where admin_secret is not null and coalesce(id = ${databaseId}::uuid, true)
      and not exists (select from database_volume where database_id = dropped.id and state = 'dropped' and ${isKept})
      and not exists (select from database_copy where database_id = dropped.id and ${isKept})`.execute(db));

/** The same of all branches of a project that is deleted: none of them comes back. */
export const forgetSecretsOf = async (tx: Db, projectId: string): Promise<void> =>
  void (await sql`update dropped_database set ${noSecrets} where project_id = ${projectId}`.execute(tx));
