import { sql } from "kysely";
import type { Db } from "../../../../../stores/db/pool.ts";
import type { Branch, Copy, OffsiteCopy } from "../../../../../stores/db/tables.ts";
import { enqueue } from "../../../../../stores/work/queue.ts";
import { retentionHours } from "../../steps.ts";
import type { CopyManifest } from "../objects.ts";
import type { FetchProgress } from "./progress.ts";

export const fetchWork = "offsite-fetch";

const now = sql<Date>`clock_timestamp()`;

/** Of a row of `database_copy`: it is on its way from a bucket to its node. */
const isFetching = sql<boolean>`fetched_from is not null and covered_at is null and problem is null`;

/** Whether a copy of the branch is on its way. Exact while the branch is locked. */
export async function isBeingFetched(db: Db, databaseId: string): Promise<boolean> {
  const copy = await db
    .selectFrom("database_copy")
    .select("id")
    .where("database_id", "=", databaseId)
    .where(isFetching)
    .executeTakeFirst();
  return copy !== undefined;
}

/**
 * Begins a copy of the branch, which the caller has locked, on a node: one that has ended, of which nothing is known before all of it
 * is there.
 */
export async function insertFetch(
  tx: Db,
  { id: database_id, engine, project_id, channel, generation }: Branch,
  { id, nodeId, offsite }: { id: string; nodeId: string; offsite: OffsiteCopy },
): Promise<void> {
  await tx
    .insertInto("database_copy")
    .values({
      ...{ id, database_id, engine, project_id, channel, generation, node_id: nodeId, purpose: "keeper" },
      ...{ state: "ended", ended_at: now, released_at: now, fetched_from: offsite.id },
      purge_at: sql<Date>`clock_timestamp() + ${retentionHours} * interval '1 hour'`,
    })
    .execute();
  const payload: FetchPayload = { copyId: id, projectId: project_id, progress: null };
  await enqueue(tx, { kind: fetchWork, key: keyOf(id), payload });
}

interface FetchPayload {
  copyId: string;
  projectId: string;
  progress: FetchProgress | null;
}

const keyOf = (copyId: string) => `${fetchWork}/${copyId}`;

/** How far the fetch of a copy was when that was last saved; null: not a single object is whole. */
export async function findProgress(db: Db, copyId: string): Promise<FetchProgress | null> {
  const item = await db
    .selectFrom("work_item")
    .select("payload")
    .where("key", "=", keyOf(copyId))
    .orderBy("id", "desc")
    .executeTakeFirst();
  return (item?.payload as Partial<FetchPayload> | undefined)?.progress ?? null;
}

/** Goes with the work, for whoever does it next. */
export const saveProgress = async (db: Db, copyId: string, progress: FetchProgress): Promise<void> =>
  void (await db
    .updateTable("work_item")
    .set({ payload: sql`payload || ${JSON.stringify({ progress })}::jsonb` })
    .where("key", "=", keyOf(copyId))
    .execute());

/** The name of a machine whose disk has less free than the machine keeps free; null: it has room. */
export async function findFullNode(db: Db, nodeId: string): Promise<string | null> {
  const node = await db
    .selectFrom("node")
    .select("name")
    .where("id", "=", nodeId)
    .where("disk_full", "=", true)
    .executeTakeFirst();
  return node?.name ?? null;
}

export interface FoundFetch {
  copy: Copy & { node_id: string };
  offsite: OffsiteCopy;
  secret: Buffer;
  nodeGone: boolean;
}

/** A copy that is on its way, and from where; null: it is not, or not any more. */
export async function findFetch(db: Db, copyId: string): Promise<FoundFetch | null> {
  const copy = await db
    .selectFrom("database_copy")
    .leftJoin("node", "node.id", "database_copy.node_id")
    .selectAll("database_copy")
    .select("node.lifecycle")
    .where("database_copy.id", "=", copyId)
    .where(isFetching)
    .executeTakeFirst();
  if (copy === undefined || copy.node_id === null || copy.fetched_from === null) return null;
  const found = await db
    .selectFrom("offsite_copy")
    .innerJoin("offsite_key", "offsite_key.database_id", "offsite_copy.database_id")
    .selectAll("offsite_copy")
    .select("offsite_key.secret")
    .where("offsite_copy.id", "=", copy.fetched_from)
    .executeTakeFirst();
  if (found === undefined) return null;
  const { secret, ...offsite } = found;
  const { lifecycle, node_id, ...rest } = copy;
  return { copy: { ...rest, node_id }, offsite, secret, nodeGone: lifecycle !== "active" };
}

/** All of it is on its node, and can be restored from. */
export const setFetched = async (
  db: Db,
  id: string,
  { coveredAt, position, bases, generation, files }: CopyManifest,
): Promise<void> =>
  void (await db
    .updateTable("database_copy")
    .set({
      ...{ covered_at: new Date(coveredAt), position, bases: JSON.stringify(bases), generation },
      bytes: files.reduce((sum, { size }) => sum + size, 0),
    })
    .where("id", "=", id)
    .where(isFetching)
    .execute());

/** It comes to nothing, and what there is of it goes. */
export const setFetchFailed = async (db: Db, id: string, problem: string): Promise<void> =>
  void (await db
    .updateTable("database_copy")
    .set({ problem, purge_at: now })
    .where("id", "=", id)
    .where(isFetching)
    .execute());
