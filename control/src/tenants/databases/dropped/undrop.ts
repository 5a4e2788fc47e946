import type { Db } from "../../../stores/db/pool.ts";
import type { Change, DroppedBranch } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { getOpenChange, insertChange } from "../changes/store.ts";
import { findRestorable } from "../copies/store.ts";
import { findBranch, wakeBranch } from "../store.ts";
import { findOwnVolume, placeVolume } from "../volumes/store.ts";
import { decideUndrop, type UndropFrom } from "./rules.ts";
import { lockDropped } from "./store.ts";

export interface Undropped {
  branch: DroppedBranch;
  from: UndropFrom;
  /** What brings it out of a copy; null: it comes from its volume. */
  change: Change | null;
}

/**
 * Brings a branch back that was dropped, under its id and with its passwords, in the caller's transaction: afterwards it is as any
 * other whose server is to come up. From its volume, or where that is lost from its newest copy, by a restore as of others.
 * Throws NOT_FOUND, CONFLICT and DATABASE_NOT_READY.
 *
 * @param asked.changeId of the restore, if it comes to one
 */
export async function undropBranch(
  tx: Db,
  id: string,
  asked: { changeId: string; requestedBy: string },
): Promise<Undropped> {
  const project = await lockProjectOf(tx, id);
  const dropped = await lockDropped(tx, id);
  const volume = dropped && (await findOwnVolume(tx, { databaseId: id, generation: dropped.generation }));
  const copy = await findRestorable(tx, id);
  const branch = await tx.selectFrom("database").select("status").where("id", "=", id).executeTakeFirst();
  const successor = dropped && (await findBranch(tx, dropped.project_id, dropped.channel));
  const decided = decideUndrop({
    ...{ status: branch?.status ?? null, isRemembered: dropped !== null, project, hasCopy: copy !== null },
    ...{ successor: successor?.status ?? null, hasVolume: volume !== null },
    hasSecrets: dropped?.admin_secret != null && dropped.secret !== null,
    wasReady: dropped?.role_connection_limit != null,
  });
  if ("refusal" in decided) throw new Refused(decided.refusal.code, decided.refusal.message);
  if (dropped === null) throw new Refused("NOT_FOUND");
  const { from } = decided;
  if (from === "copy") {
    await insertAgain(tx, dropped);
    return { branch: dropped, from, change: await restore(tx, dropped, copy, asked) };
  }
  // Its machine may have come back under another id.
  const placed = { ...dropped, node_id: volume?.nodeId ?? null };
  await insertAgain(tx, placed);
  await serve(tx, placed);
  return { branch: placed, from, change: null };
}

/** Holds the project of a branch that was dropped, so that nobody makes another one in its channel, or deletes it. */
async function lockProjectOf(tx: Db, databaseId: string): Promise<"there" | "suspended" | "deleted"> {
  const project = await tx
    .selectFrom("project")
    .select(["deleting_at", "suspended_at", "resuming_at"])
    .where("id", "=", (of) => of.selectFrom("dropped_database").select("project_id").where("id", "=", databaseId))
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (project === undefined || project.deleting_at !== null) return "deleted";
  return project.suspended_at !== null && project.resuming_at === null ? "suspended" : "there";
}

/** As it was, but for its tenant: nobody knows what its next server has of that. */
async function insertAgain(tx: Db, dropped: DroppedBranch): Promise<void> {
  const { id, project_id, channel, engine, node_id, generation, role_connection_limit, created_at } = dropped;
  const { admin_secret, secret, pending_secret, keeper_secret, read_only, read_only_soft } = dropped;
  if (admin_secret === null || secret === null) throw new Refused("CONFLICT");
  await tx
    .insertInto("database")
    .values({
      ...{ id, project_id, channel, engine, node_id, generation, role_connection_limit, read_only, read_only_soft },
      ...{ admin_secret, secret, pending_secret, keeper_secret, ...(created_at !== null && { created_at }) },
    })
    .execute();
  await tx.deleteFrom("dropped_database").where("id", "=", id).execute();
}

async function serve(tx: Db, { id, generation, node_id }: DroppedBranch): Promise<void> {
  if (node_id !== null) await placeVolume(tx, { databaseId: id, generation, nodeId: node_id });
  await wakeBranch(tx, id);
}

async function restore(
  tx: Db,
  dropped: DroppedBranch,
  copy: Awaited<ReturnType<typeof findRestorable>>,
  { changeId, requestedBy }: { changeId: string; requestedBy: string },
): Promise<Change> {
  await insertChange(tx, dropped, {
    ...{ id: changeId, kind: "restore", state: "stopping", requested_by: requestedBy, until: null },
    ...{ copy_id: copy?.id ?? null, to_node: copy?.node_id ?? null, covered_at: copy?.covered_at ?? null },
  });
  return getOpenChange(tx, dropped.id);
}
