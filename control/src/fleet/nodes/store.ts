import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";
import type { NodeIdentityRow } from "../sessions/identity.ts";
import { identityColumns } from "../sessions/identity.ts";
import { insertNodeEvents } from "./events/store.ts";
import { factChange } from "./fact-change.ts";
import { nodeNames } from "./rules.ts";

const namesTried = 20;

/** A new row under the wished name, or that name with a number while another machine has it. */
export async function insertNode(
  db: Db,
  {
    role,
    wish,
    addresses,
    now,
  }: { role: "node" | "edge"; wish: string; addresses: readonly string[] | null; now: Date },
): Promise<NodeIdentityRow> {
  const numbered = nodeNames(wish, role, namesTried);
  for (const name of [...numbered, `${numbered[0]}-${randomBytes(4).toString("hex")}`]) {
    const row = await db
      .insertInto("node")
      .values({
        ...{ role, name, created_at: now, addresses: addresses === null ? null : JSON.stringify(addresses) },
        entering: role === "edge",
      })
      // Written out, as a parameter would not be seen to be what the index says.
      .onConflict((conflict) => conflict.column("name").where(sql<boolean>`lifecycle != 'removed'`).doNothing())
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

/** What a daemon tells otherwise than at its last Hello, and where it was reached until then. */
export interface NoticedChange {
  detail: string;
  formerAddress: string | null;
}

/**
 * Keeps what a daemon told at Hello, and adds a line to its history where it told otherwise before; null: it did not.
 * In the caller's transaction.
 */
export async function saveFacts(tx: Db, id: string, facts: NodeFacts, now: Date): Promise<NoticedChange | null> {
  const before = await tx
    .selectFrom("node")
    .select(["address", "labels", "capacity"])
    .where("id", "=", id)
    .forUpdate()
    .executeTakeFirst();
  if (before === undefined) return null;
  await tx
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
  const detail = factChange(before, facts);
  if (detail === null) return null;
  await insertNodeEvents(tx, [{ nodeId: id, kind: "changed", detail, at: now }]);
  return { detail, formerAddress: before.address };
}

/**
 * Counts an edge in from now on: it has said that it is whole, or will never say. Only after that it may let visitors
 * come. False when it was in already.
 */
export async function enterRotation(tx: Db, id: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable("node")
    .set({ entering: false })
    .where("id", "=", id)
    .where("entering", "=", true)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return false;
  await insertNodeEvents(tx, [{ nodeId: id, kind: "entered", detail: null, at: now }]);
  return true;
}

/** What an agent says of its machine with every renewal. */
export interface NodeConditions {
  /** No room on its disks for new work. */
  diskFull: boolean;
  /** Too little memory is really left for new work. */
  memoryShort: boolean;
  /** Its container engine does not answer. */
  engineStalled: boolean;
  /** Why it builds no Dockerfiles of users; null: it does. */
  dockerfileProblem: string | null;
}

/** Notes the conditions of a node; false when nothing changed. */
export async function setConditions(db: Db, id: string, conditions: NodeConditions): Promise<boolean> {
  const { diskFull, memoryShort, engineStalled, dockerfileProblem } = conditions;
  const { numUpdatedRows } = await db
    .updateTable("node")
    .set({
      disk_full: diskFull,
      memory_short: memoryShort,
      engine_stalled: engineStalled,
      dockerfile_problem: dockerfileProblem,
    })
    .where("id", "=", id)
    .where((where) =>
      where.or([
        where("disk_full", "!=", diskFull),
        where("memory_short", "!=", memoryShort),
        where("engine_stalled", "!=", engineStalled),
        where("dockerfile_problem", "is distinct from", dockerfileProblem),
      ]),
    )
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Notes of the conditions of a node the one that is told before the others. */
export async function setDockerfileProblem(db: Db, id: string, problem: string | null): Promise<void> {
  await db
    .updateTable("node")
    .set({ dockerfile_problem: problem })
    .where("id", "=", id)
    .where("dockerfile_problem", "is distinct from", problem)
    .execute();
}

/** Takes a node out of use of which two were seen; false when it is already. */
export async function setQuarantined(db: Db, id: string, now: Date): Promise<boolean> {
  return await db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable("node")
      .set({ quarantined_at: now })
      .where("id", "=", id)
      .where("quarantined_at", "is", null)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    const detail = "two machines were seen to use its identity";
    await tx.insertInto("node_event").values({ node_id: id, kind: "quarantined", detail }).execute();
    return true;
  });
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
      and node.quarantined_at is null
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

/** The row with this id; null when there is none. */
export async function findNodeRow(db: Db, id: string): Promise<Node | null> {
  const row = await db.selectFrom("node").selectAll().where("id", "=", id).executeTakeFirst();
  return row ?? null;
}
