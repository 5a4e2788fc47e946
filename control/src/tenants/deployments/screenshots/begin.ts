import { sql } from "kysely";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { askForCapture, isLive } from "./store.ts";

/** Under way at once: each takes a processor of some node for seconds. */
const underWayMax = 8;
/** By the database's clock, whoever asks; a failed one is asked for again as well. */
const isOld = sql<boolean>`(screenshot.asked_at < now() - interval '1 day'
  and extract(hour from now() at time zone 'utc') between 3 and 5)`;

/**
 * Asks for pictures of what is live and has none, so that each deployment has one once it serves; and in the night for new ones of
 * those that are older than a day. Only as many as there is room for: the rest has its turn in the next round. Returns how many.
 */
export async function beginCaptures({ db, log }: { db: Db; log: Log }): Promise<number> {
  const { underWay } = await db
    .selectFrom("screenshot")
    .select((of) => of.fn.countAll<number>().as("underWay"))
    .where("pending", "=", true)
    .executeTakeFirstOrThrow();
  const room = underWayMax - underWay;
  if (room <= 0) return 0;
  const due = await db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .leftJoin("screenshot", "screenshot.deployment_id", "deployment.id")
    .select(["deployment.id", "deployment.project_id"])
    .where((where) => isLive(where as never))
    .where((where) =>
      where.or([where("screenshot.id", "is", null), where.and([where("screenshot.pending", "=", false), isOld])]),
    )
    // Those without any first: somebody may be looking.
    .orderBy(sql`screenshot.asked_at is not null`)
    .orderBy("screenshot.asked_at")
    .orderBy("deployment.phase_started_at", "desc")
    .limit(room)
    .execute();
  let begun = 0;
  for (const { id, project_id } of due) {
    try {
      begun += await db
        .transaction()
        .execute(async (tx) => ((await askForCapture(tx, { id, project_id })) === 0 ? 1 : 0));
    } catch (error) {
      // It may have gone meanwhile. The others have their turn all the same.
      log.warn({ err: error, deploymentId: id }, "a screenshot could not be asked for");
    }
  }
  return begun;
}
