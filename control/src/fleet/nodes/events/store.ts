import { limits } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { NodeEvent } from "../../../stores/db/tables.ts";

export interface NewNodeEvent {
  nodeId: string;
  /** One word, such as "cordoned" or "unreachable". */
  kind: string;
  detail?: string | null;
  /** Now, unless it is known to have been earlier. */
  at?: Date;
}

/** Adds lines to the history of machines, in one statement. */
export async function insertNodeEvents(db: Db, events: readonly NewNodeEvent[]): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map(({ nodeId, kind, detail = null, at }) => ({
    ...{ node_id: nodeId, kind, detail },
    ...(at !== undefined && { at }),
  }));
  await db.insertInto("node_event").values(rows).execute();
}

/** The newest lines of one machine, newest first. */
export const listNodeEvents = (db: Db, nodeId: string, count: number): Promise<NodeEvent[]> =>
  db.selectFrom("node_event").selectAll().where("node_id", "=", nodeId).orderBy("id", "desc").limit(count).execute();

/**
 * Deletes lines that nobody sees any more: of each machine the newest of each kind are kept, so that one that causes many
 * of one kind does not push out what else was told of it. Returns how many went.
 */
export async function expireNodeEvents(db: Db): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from node_event where id in (
      select id from (
        select id, row_number() over (partition by node_id, kind order by id desc) as place from node_event
      ) as ranked
      where place > ${limits.nodeEventsKept})`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
