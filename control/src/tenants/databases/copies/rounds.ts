import { sql } from "kysely";
import { enqueueCopies } from "../../../fleet/databases/checks.ts";
import type { Db } from "../../../stores/db/pool.ts";

/** How often every branch is looked at, and one that is seen to lack something. */
export const everySeconds = 300;
export const soonSeconds = 15;
/** Looked at per round; the rest has its turn in the next. */
const roundMax = 500;

/**
 * Has the copies of branches looked at: of each now and then, since a better place for one may have come up, and soon where one is
 * missing, cannot go on, or nobody keeps it. Returns how many.
 */
export async function enqueueCopyRound(db: Db, { isWanted }: { isWanted: boolean }): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    update database set copies_looked_at = now() where id in (
      select database.id from database
        left join database_copy copy on copy.database_id = database.id and copy.state <> 'ended'
        left join node on node.id = copy.node_id
        join project on project.id = database.project_id
      where database.status <> 'dropping' and (${isWanted}::boolean or copy.id is not null)
        and (database.copies_looked_at is null
          or database.copies_looked_at < now() - ${everySeconds} * interval '1 second'
          or (database.copies_looked_at < now() - ${soonSeconds} * interval '1 second'
            and ((database.status = 'ready' and copy.id is null and project.suspended_at is null)
              or copy.generation <> database.generation
              or node.lifecycle <> 'active'
              or (copy.purpose = 'successor' and copy.state = 'following')
              or (copy.id is not null and database.status = 'ready' and project.suspended_at is null and not exists (
                select from task where task.owner_id = copy.id and task.kind = 'keeper' and task.desired = 'running')))))
      order by database.copies_looked_at nulls first, database.id limit ${roundMax}
      for update of database skip locked)
    returning id`.execute(db);
  return enqueueCopies(
    db,
    rows.map(({ id }) => id),
  );
}
