import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { forgetSecrets } from "../dropped/store.ts";

/** For how long a volume that is gone is still shown, and looked out for: its node may have been without a disk. */
const goneDays = 7;

/**
 * Forgets volumes that are on no disk any more as far as anybody will ever know, and then the branches that had them: their passwords
 * as soon as nothing is kept that they would come back from, all else with the last volume and copy. Returns how many volumes.
 */
export async function forgetVolumes(db: Db): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from database_volume volume
    where state <> 'current' and purge_at < now() and not kept
      and (gone_at < now() - ${goneDays} * interval '1 day' or node_id is null
        or not exists (select from node where node.id = volume.node_id and node.lifecycle = 'active'))
      and not exists (
        select from database_change change where change.database_id = volume.database_id and change.ended_at is null)`.execute(
    db,
  );
  await forgetSecrets(db);
  await sql`
    delete from dropped_database dropped
    where purge_at < now() and not exists (select from database_volume where database_id = dropped.id)
      and not exists (select from database_copy where database_id = dropped.id)`.execute(db);
  await sql`
    delete from database_change change
    where ended_at is not null and not exists (select from database where id = change.database_id)
      and not exists (select from dropped_database where id = change.database_id)`.execute(db);
  return Number(numAffectedRows);
}
