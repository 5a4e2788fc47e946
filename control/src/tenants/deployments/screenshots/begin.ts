import { sql } from "kysely";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { askForCapture, isLive, perOwnerMax } from "./store.ts";

/** Under way at once: each takes a processor of some node for seconds. */
const underWayMax = 8;
/** By the database's clock, whoever asks; a failed one is asked for again as well. */
const isOld = sql<boolean>`(screenshot.asked_at < now() - interval '1 day'
  and extract(hour from now() at time zone 'utc') between 3 and 5)`;

/**
 * Asks for pictures of what is live and has none, so that each deployment has one once it serves; and in the night for new ones of
 * those that are older than a day. Only as many as there is room for, of all and of each owner's, whoever asked for what is under
 * way: the rest has its turn in the next round. Returns how many.
 */
export async function beginCaptures({ db, log }: { db: Db; log: Log }): Promise<number> {
  const { underWay } = await db
    .selectFrom(ofOwners(db).as("of_owners"))
    .select(sql<number>`coalesce(sum(least(of_owners.count, ${perOwnerMax})), 0)::int4`.as("underWay"))
    .executeTakeFirstOrThrow();
  const room = underWayMax - underWay;
  if (room <= 0) return 0;
  // Those without any first: somebody may be looking.
  const order = sql`screenshot.asked_at is not null, screenshot.asked_at, deployment.phase_started_at desc`;
  const candidates = db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .leftJoin("screenshot", "screenshot.deployment_id", "deployment.id")
    .leftJoin(ofOwners(db).as("of_owners"), "of_owners.owner_id", "project.owner_id")
    .select(["deployment.id", "deployment.project_id"])
    .select(sql<number>`row_number() over (order by ${order})`.as("turn"))
    .select(
      sql<number>`coalesce(of_owners.count, 0) + row_number() over (partition by project.owner_id order by ${order})`.as(
        "of_owner",
      ),
    )
    .where((where) => isLive(where as never))
    .where((where) =>
      where.or([where("screenshot.id", "is", null), where.and([where("screenshot.pending", "=", false), isOld])]),
    );
  const due = await db
    .selectFrom(candidates.as("due"))
    .select(["id", "project_id"])
    .where("of_owner", "<=", perOwnerMax)
    .orderBy("turn")
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

/** How many are under way of each owner's. */
const ofOwners = (db: Db) =>
  db
    .selectFrom("screenshot")
    .innerJoin("project", "project.id", "screenshot.project_id")
    .select("project.owner_id")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("screenshot.pending", "=", true)
    .groupBy("project.owner_id");
