import type { Random } from "@svc/runtime/random";
import { sql } from "kysely";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { lockBranch } from "../store.ts";
import { type LeavingBranch, nextMoves } from "./drain-steps.ts";
import { beginMove } from "./move.ts";

export interface DrainDatabasesDeps {
  db: Db;
  random: Random;
  log: Log;
}

/** One round: begins to move branches off machines that are being emptied with their databases. Safe to repeat and to lose. */
export async function moveFromDraining({ db, random, log }: DrainDatabasesDeps): Promise<void> {
  for (const databaseId of nextMoves(await listLeaving(db))) {
    try {
      await db.transaction().execute(async (tx) => {
        const branch = await lockBranch(tx, databaseId);
        if (branch !== null) await beginMove(tx, branch, { id: random.uuid(), requestedBy: "svc", to: null });
      });
      log.info({ databaseId }, "a database leaves a machine that is being emptied");
    } catch (error) {
      // Such as no other machine: the next round asks again.
      if (!(error instanceof Refused)) throw error;
      log.warn({ err: error, databaseId }, "a database cannot leave a machine that is being emptied");
    }
  }
}

async function listLeaving(db: Db): Promise<LeavingBranch[]> {
  const { rows } = await sql<LeavingBranch>`
    select database.id as "databaseId", database.node_id as "nodeId",
      case when database.read_only and database.engine = 'postgres' then 'read-only'
        when project.suspended_at is not null and project.resuming_at is null then 'suspended'
        else database.status end as status,
      exists (select from database_change where database_id = database.id and ended_at is null) as "isChanging",
      (select extract(epoch from clock_timestamp() - max(ended_at))::float8 * 1000 from database_change
        where database_id = database.id and kind = 'move' and state = 'failed') as "failedMs"
    from database join node on node.id = database.node_id join project on project.id = database.project_id
    where node.lifecycle = 'active' and node.drain in ('draining', 'deadline') and node.drain_moves_databases
    order by database.node_id, database.id`.execute(db);
  return rows;
}
