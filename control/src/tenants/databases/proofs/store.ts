import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { RestoreProof } from "../../../stores/db/tables.ts";
import { enqueueAll } from "../../../stores/work/queue.ts";

export const proofWork = "restore-proof";

/** Of each branch the newest are kept. */
const proofsKept = 30;
/** A copy is proven after each whole one, at night; also by day when that was not possible for so long. */
const everyDays = 7;

/**
 * Begins proofs of copies that are due, one per node at a time, each branch at an hour of the night of its own (UTC, from one
 * o'clock on). Returns how many.
 */
export async function beginProofs(db: Db): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ id: string }>`
      insert into restore_proof (id, database_id, copy_id, base)
      select gen_random_uuid(), database_id, id, base from (
        select distinct on (copy.node_id) copy.id, copy.database_id, newest.number as base
        from database_copy copy
          join database on database.id = copy.database_id and database.generation = copy.generation
          join project on project.id = database.project_id
          join node on node.id = copy.node_id
          cross join lateral (
            select (base ->> 'number')::int as number, (base ->> 'at')::timestamptz as at
            from jsonb_array_elements(copy.bases) base order by 1 desc limit 1) newest
          left join lateral (
            select created_at, copy_id, base from restore_proof
            where database_id = copy.database_id order by created_at desc limit 1) last on true
        where copy.state = 'following' and copy.purpose = 'keeper' and database.status = 'ready'
          and node.lifecycle = 'active' and project.suspended_at is null and project.deleting_at is null
          and not exists (select from database_change where database_id = database.id and ended_at is null)
          and not exists (
            select from restore_proof pending join database_copy other on other.id = pending.copy_id
            where pending.verdict = 'pending' and other.node_id = copy.node_id)
          and (last.copy_id is distinct from copy.id or last.base is distinct from newest.number
            or last.created_at < now() - ${everyDays} * interval '1 day')
          and (extract(hour from now() at time zone 'utc') between 1 + abs(hashtext(database.id::text)::bigint) % 5 and 6
            or coalesce(last.created_at, copy.created_at) < now() - ${everyDays} * interval '1 day')
        order by copy.node_id, last.created_at nulls first, copy.id) due
      on conflict do nothing returning id`.execute(tx);
    await enqueueAll(
      tx,
      proofWork,
      rows.map(({ id }) => ({ key: `${proofWork}/${id}`, payload: { proofId: id } })),
    );
    return rows.length;
  });
}

/** Queues those again that have no verdict, and that nobody is at. Returns how many. */
export async function resumeProofs(db: Db): Promise<number> {
  const left = await db
    .selectFrom("restore_proof")
    .select("id")
    .where("verdict", "=", "pending")
    .where(
      sql<boolean>`not exists (
        select from work_item where key = ${proofWork} || '/' || restore_proof.id and state in ('queued', 'running'))`,
    )
    .execute();
  const items = left.map(({ id }) => ({ key: `${proofWork}/${id}`, payload: { proofId: id } }));
  await enqueueAll(db, proofWork, items);
  return items.length;
}

/** The proof, held until the transaction ends, if it has no verdict yet; null when it has one, or is no more. */
export async function lockPendingProof(tx: Db, id: string): Promise<RestoreProof | null> {
  const proof = await tx
    .selectFrom("restore_proof")
    .selectAll()
    .where("id", "=", id)
    .where("verdict", "=", "pending")
    .forUpdate()
    .executeTakeFirst();
  return proof ?? null;
}

export type Verdict =
  | { verdict: "proven"; coveredAt: string; tookMs: number; bytes: number }
  | { verdict: "failed"; problem: string; coveredAt?: string };

/** Notes what came of a proof that the caller has locked, and lets go of what is older than those that are kept. */
export async function setVerdict(tx: Db, { id, database_id }: RestoreProof, of: Verdict): Promise<void> {
  await tx
    .updateTable("restore_proof")
    .set({
      ...{ verdict: of.verdict, ended_at: sql<Date>`clock_timestamp()`, source: null },
      covered_at: of.coveredAt === undefined ? null : new Date(of.coveredAt),
      ...(of.verdict === "proven" ? { took_ms: of.tookMs, bytes: of.bytes } : { problem: of.problem }),
    })
    .where("id", "=", id)
    .execute();
  await sql`
    delete from restore_proof where database_id = ${database_id} and created_at < (
      select created_at from restore_proof where database_id = ${database_id}
      order by created_at desc offset ${proofsKept - 1} limit 1)`.execute(tx);
}
