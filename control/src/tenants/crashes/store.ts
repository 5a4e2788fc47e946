import { type RawBuilder, sql } from "kysely";
import type { CrashingValue } from "../../fleet/cluster/keys.ts";

/**
 * How the container falls over that does so most often, of those that are to run and that `isConcerned` names; null when
 * none does. One that ended once and answers again is well.
 */
export const worstCrashing = (isConcerned: RawBuilder<unknown>): RawBuilder<CrashingValue | null> =>
  sql<CrashingValue | null>`(
    select task.crashing from task join deployment as its on its.id = task.owner_id
    where ${isConcerned} and its.status = 'running' and task.kind = 'serve' and task.desired = 'running'
      and task.retiring_at is null and task.reaped_at is null and task.crashing is not null
      and (task.trouble is not null or (task.crashing->>'count')::int > 1)
    order by its.channel = 'production' desc, (task.crashing->>'count')::int desc, task.epoch
    limit 1)`;
