import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/**
 * Forgets copies that have had their time and are on no disk any more as far as anybody will ever know, with their tasks and with the
 * proofs of branches that are no more. Returns how many copies.
 */
export async function forgetCopies(db: Db): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with gone as (
      delete from database_copy copy
      where state = 'ended' and purge_at < now() and not kept
        and (gone_at is not null or node_id is null
          or not exists (select from node where node.id = copy.node_id and node.lifecycle = 'active'))
        -- What its server may still keep for it is found by this row alone.
        and (released_at is not null or engine <> 'postgres' or not (
          exists (select from database where database.id = copy.database_id and database.generation = copy.generation)
          or exists (
            select from database_volume volume where volume.database_id = copy.database_id
              and volume.generation = copy.generation and volume.gone_at is null)))
        and not exists (select from task where task.owner_id = copy.id and task.reaped_at is null)
        and not exists (
          select from database_change change where change.copy_id = copy.id and change.ended_at is null)
      returning copy.id, copy.database_id),
    tasks as (delete from task using gone where task.owner_id = gone.id),
    proofs as (
      delete from restore_proof using gone where restore_proof.database_id = gone.database_id
        and not exists (select from database where database.id = gone.database_id))
    select id from gone`.execute(db);
  return Number(numAffectedRows);
}
