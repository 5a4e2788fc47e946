import { randomBytes } from "node:crypto";
import type { Channel, DatabaseEngine, DatabaseStatus } from "@svc/proto";
import { sql } from "kysely";
import { type AlertPlace, clearAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import { adminSecretAad, pendingSecretAad, tenantSecretAad } from "../../fleet/databases/secrets.ts";
import { wakeDatabases } from "../../identity/plans/reconcile-databases.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { holdsBranch } from "./changes/store.ts";
import { endCopies } from "./copies/store.ts";
import { rememberBranch } from "./dropped/store.ts";
import { forgetUnplaced, retireVolume } from "./volumes/store.ts";

/** Of characters that no URL has to escape. */
const newPassword = (): string => randomBytes(32).toString("base64url");

/** The branches of a project, whatever their status. */
export const listBranches = (db: Db, projectId: string): Promise<Branch[]> =>
  db.selectFrom("database").selectAll().where("project_id", "=", projectId).execute();

/** Null: the channel has none. Exact while the project is locked. */
export async function findBranch(db: Db, projectId: string, channel: Channel): Promise<Branch | null> {
  const branch = await db
    .selectFrom("database")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("channel", "=", channel)
    .executeTakeFirst();
  return branch ?? null;
}

/** The branch, held until the transaction ends; null when it is no more. After its project, before its tasks. */
export async function lockBranch(tx: Db, id: string): Promise<Branch | null> {
  const branch = await tx.selectFrom("database").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
  return branch ?? null;
}

/** Projects of a user besides `projectId` that have a branch. Exact while the user is locked. */
export async function countOtherProjects(db: Db, ownerId: string, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom("database")
    .innerJoin("project", "project.id", "database.project_id")
    .select(sql<number>`count(distinct project.id)`.as("count"))
    .where("project.owner_id", "=", ownerId)
    .where("project.id", "!=", projectId)
    .where("project.deleting_at", "is", null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Adds a branch with passwords of its own, and fixes the engine of the project, which the caller has locked. */
export async function insertBranch(
  tx: Db,
  secrets: Secrets,
  { id, projectId, channel, engine }: { id: string; projectId: string; channel: Channel; engine: DatabaseEngine },
): Promise<void> {
  const seal = (aad: string) => secrets.seal(Buffer.from(newPassword()), aad);
  await tx
    .insertInto("database")
    .values({
      ...{ id, project_id: projectId, channel, engine },
      admin_secret: seal(adminSecretAad(id)),
      secret: seal(tenantSecretAad(id)),
    })
    .execute();
  await tx.updateTable("project").set({ db_engine: engine }).where("id", "=", projectId).execute();
}

/** Has a worker look at the branch after this transaction. */
export const wakeBranch = (tx: Db, id: string): Promise<number> => wakeDatabases(tx, sql<boolean>`database.id = ${id}`);

/** The same for all branches of projects. */
export const wakeBranchesOf = (tx: Db, projectIds: readonly string[]): Promise<number> =>
  wakeDatabases(tx, sql<boolean>`project.id = any(${[...projectIds]}::uuid[])`);

const sinceNow = sql<Date>`clock_timestamp()`;

/** What its owner is told of a branch that has no server which comes up. */
export const failingAlert = ({
  project_id: projectId,
  channel: subject,
}: Pick<Branch, "project_id" | "channel">): AlertPlace => ({
  ...{ projectId, event: "databaseFailing", subject },
});

/** Moves a branch that is in `from`, and in which nothing has changed since. False: it is not any more. */
export async function moveBranch(
  tx: Db,
  id: string,
  { from, to, reason = null }: { from: DatabaseStatus; to: DatabaseStatus; reason?: string | null },
): Promise<boolean> {
  const moved = await tx
    .updateTable("database")
    .set({ status: to, reason, status_at: sinceNow })
    .where("id", "=", id)
    .where("status", "=", from)
    .returning(["project_id", "channel"])
    .executeTakeFirst();
  if (moved === undefined) return false;
  const alert = failingAlert(moved);
  if (to === "error") await raiseAlert(tx, { ...alert, detail: reason ?? "" });
  else if (to === "ready") await clearAlert(tx, alert);
  return true;
}

/** Role and database in the server may not be what they should, whatever somebody who is about to write may know. */
export const doubted = { tenant_at: null, tenant_doubts: sql<number>`tenant_doubts + 1` } as const;

/** A branch in `error` is tried again, from making its tenant on: nobody knows how far it was. */
export async function retryBranch(tx: Db, id: string): Promise<void> {
  await tx
    .updateTable("database")
    .set({ status: "provisioning", reason: null, status_at: sinceNow, ...doubted })
    .where("id", "=", id)
    .where("status", "=", "error")
    .execute();
}

/** Branches of projects are to go, whatever they are at. */
export async function dropBranches(tx: Db, projectIds: readonly string[], channel?: Channel): Promise<void> {
  await tx
    .updateTable("database")
    .set({ status: "dropping", reason: null, status_at: sinceNow })
    .where("project_id", "in", projectIds)
    .$if(channel !== undefined, (query) => query.where("channel", "=", channel ?? "production"))
    .where("status", "!=", "dropping")
    .execute();
  await wakeBranchesOf(tx, projectIds);
}

/** Gives a branch another password of its tenant's role, to be brought to its server; the one of before stays if one is on its way. */
export async function beginRotation(tx: Db, secrets: Secrets, id: string): Promise<void> {
  const pending = secrets.seal(Buffer.from(newPassword()), pendingSecretAad(id));
  await tx
    .updateTable("database")
    .set({ pending_secret: pending })
    .where("id", "=", id)
    .where("pending_secret", "is", null)
    .execute();
  await wakeBranch(tx, id);
}

/** Has the servers of a project that is resumed brought up; what is not ready yet gets its whole time anew. */
export async function resumeBranches(tx: Db, projectId: string): Promise<void> {
  await tx
    .updateTable("database")
    .set({ status_at: sinceNow })
    .where("project_id", "=", projectId)
    .where("status", "=", "provisioning")
    .execute();
  await wakeBranchesOf(tx, [projectId]);
}

/**
 * Whether the branch, which the caller has locked, may have another server: none that is not over, none that left data
 * somewhere that the branch does not know of yet, and no change that decides about its servers.
 */
export const mayStartServer = async (tx: Db, branch: Branch): Promise<boolean> =>
  (await hasNoServer(tx, branch)) && !(await holdsBranch(tx, branch.id));

/** The same without the change: for the change itself. */
export async function hasNoServer(tx: Db, { id, node_id }: Pick<Branch, "id" | "node_id">): Promise<boolean> {
  const before = await tx
    .selectFrom("task")
    .select("id")
    .where("owner_id", "=", id)
    .where((task) =>
      node_id === null
        ? task.or([task("reaped_at", "is", null), task("node_id", "is not", null)])
        : task("reaped_at", "is", null),
    )
    .limit(1)
    .executeTakeFirst();
  return before === undefined;
}

/**
 * The branch, which the caller has locked, is no more. Its volume, if it has one, and its copies are kept for so many hours, and what
 * is known of it for as long as it can come back from them.
 */
export async function buryBranch(
  tx: Db,
  branch: Branch,
  { nodeId, keptHours }: { nodeId: string | null; keptHours: number },
): Promise<void> {
  const { id, generation, volume_bytes } = branch;
  await endCopies(tx, id, { keptHours });
  if (nodeId === null) await forgetUnplaced(tx, id);
  else {
    const place = { databaseId: id, generation, nodeId };
    await retireVolume(tx, place, { state: "dropped", keptHours, bytes: volume_bytes });
    await rememberBranch(tx, branch, { nodeId, keptHours });
  }
  await tx.deleteFrom("task").where("owner_id", "=", id).where("reaped_at", "is not", null).execute();
  await tx.deleteFrom("database").where("id", "=", id).execute();
}
