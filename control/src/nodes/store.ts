import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import type { Node } from "../db/tables.ts";
import { nodeNames } from "./rules.ts";

/** The part of a row that decides whether a certificate still speaks for it. */
export type NodeIdentityRow = Pick<Node, "id" | "name" | "role" | "incarnation" | "lifecycle">;

const identityColumns = ["id", "name", "role", "incarnation", "lifecycle"] as const;
const namesTried = 20;

export async function findIdentity(db: Db, id: string): Promise<NodeIdentityRow | null> {
  const row = await db.selectFrom("node").select(identityColumns).where("id", "=", id).executeTakeFirst();
  return row ?? null;
}

/** A new row under the wished name, or that name with a number when it is taken. */
export async function insertNode(
  db: Db,
  { role, wish, now }: { role: "node" | "edge"; wish: string; now: Date },
): Promise<NodeIdentityRow> {
  const numbered = nodeNames(wish, role, namesTried);
  for (const name of [...numbered, `${numbered[0]}-${randomBytes(4).toString("hex")}`]) {
    const row = await db
      .insertInto("node")
      .values({ role, name, created_at: now })
      .onConflict((conflict) => conflict.column("name").doNothing())
      .returning(identityColumns)
      .executeTakeFirst();
    if (row !== undefined) return row;
  }
  throw new Error(`no free name for a ${role} that wishes to be called ${numbered[0]}`);
}

export async function setCertificateExpiry(db: Db, id: string, expiresAt: Date): Promise<void> {
  await db.updateTable("node").set({ certificate_expires_at: expiresAt }).where("id", "=", id).execute();
}

/** What a daemon tells about itself at Hello. Routers have no capacity. */
export interface NodeFacts {
  version: string;
  address: string;
  labels: Record<string, string>;
  capacity: { memoryMb: number; cpuMillicores: number; pids: number; diskMb: number } | null;
  platform: { os: string; architecture: string } | null;
}

export async function saveFacts(db: Db, id: string, facts: NodeFacts, now: Date): Promise<void> {
  await db
    .updateTable("node")
    .set({
      version: facts.version,
      address: facts.address,
      labels: JSON.stringify(facts.labels),
      capacity: facts.capacity === null ? null : JSON.stringify(facts.capacity),
      platform: facts.platform === null ? null : JSON.stringify(facts.platform),
      last_seen_at: now,
    })
    .where("id", "=", id)
    .execute();
}

/** Notes whether the node has room on its disks for new work. */
export async function setDiskFull(db: Db, id: string, diskFull: boolean): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("node")
    .set({ disk_full: diskFull })
    .where("id", "=", id)
    .where("disk_full", "!=", diskFull)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/**
 * Notes that these daemons were heard, in one statement, and returns the ids that still may speak.
 * The missing ones were fenced, removed, or replaced by a newer incarnation.
 */
export async function rollCall(
  db: Db,
  heard: readonly { id: string; incarnation: number }[],
  now: Date,
): Promise<Set<string>> {
  if (heard.length === 0) return new Set();
  const { rows } = await sql<{ id: string }>`
    update node set last_seen_at = greatest(last_seen_at, ${now})
    from unnest(${heard.map(({ id }) => id)}::uuid[], ${heard.map(({ incarnation }) => incarnation)}::bigint[])
      as heard (id, incarnation)
    where node.id = heard.id and node.incarnation = heard.incarnation and node.lifecycle = 'active'
    returning node.id`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

/** Rows of the fleet, oldest first; removed ones last. */
export function listNodeRows(db: Db): Promise<Node[]> {
  return db
    .selectFrom("node")
    .selectAll()
    .orderBy(sql`lifecycle = 'removed'`)
    .orderBy("created_at")
    .orderBy("id")
    .execute();
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The row with this id, or else with this name; null when there is none. */
export async function findNodeRow(db: Db, idOrName: string): Promise<Node | null> {
  const column = uuid.test(idOrName) ? "id" : "name";
  const row = await db.selectFrom("node").selectAll().where(column, "=", idOrName).executeTakeFirst();
  return row ?? null;
}
