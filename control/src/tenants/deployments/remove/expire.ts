import { type RawBuilder, sql } from "kysely";
import { recordAudit } from "../../../http/audit.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Channel } from "../../../stores/db/tables.ts";
import { isInUse, releaseChannel, requestRemoval } from "./request.ts";

/** Channels in one round; the next hour goes on. */
const batchSize = 200;

interface IdleChannel {
  project_id: string;
  channel: Channel;
  pr_number: number | null;
}

/**
 * Removes what preview and dev channels serve that nobody has deployed to for `idleDays`, and gives up their names;
 * 0 never does. A suspended project keeps its channels: its owner could not have used them. Returns how many went.
 */
export async function expireIdle(db: Db, log: Log, idleDays: number): Promise<number> {
  if (idleDays === 0) return 0;
  let expired = 0;
  for (const each of await listIdle(db, idleDays)) {
    const gone = await db.transaction().execute((tx) => expire(tx, each, idleDays));
    if (!gone) continue;
    expired += 1;
    log.info(
      { projectId: each.project_id, channel: each.channel, prNumber: each.pr_number },
      "an idle channel expired",
    );
  }
  return expired;
}

/**
 * When a channel was last used: deployed to, whatever came of it. A channel that somebody visits will be one that is
 * used as soon as visits are counted: then the later of the two belongs here.
 */
const lastUsedAt: RawBuilder<Date> = sql`(
  select max(deployment.created_at) from deployment
  where deployment.project_id = site_host.project_id and deployment.channel = site_host.channel
    and deployment.pr_number is not distinct from site_host.pr_number)`;

const idle = (db: Db, idleDays: number) =>
  db
    .selectFrom("site_host")
    .innerJoin("project", "project.id", "site_host.project_id")
    .select(["site_host.project_id", "site_host.channel", "site_host.pr_number"])
    .distinct()
    .where("site_host.channel", "!=", "production")
    .where("site_host.domain_id", "is", null)
    .where("project.deleting_at", "is", null)
    .where("project.suspended_at", "is", null)
    .where(sql<boolean>`coalesce(${lastUsedAt}, project.created_at) < now() - ${idleDays} * interval '1 day'`);

const listIdle = (db: Db, idleDays: number): Promise<IdleChannel[]> => idle(db, idleDays).limit(batchSize).execute();

/** False when the channel is not idle any more, or its project not what it was. */
async function expire(tx: Db, place: IdleChannel, idleDays: number): Promise<boolean> {
  await tx.selectFrom("project").select("id").where("id", "=", place.project_id).forNoKeyUpdate().executeTakeFirst();
  const still = await idle(tx, idleDays)
    .where("site_host.project_id", "=", place.project_id)
    .where("site_host.channel", "=", place.channel)
    .where("site_host.pr_number", "is not distinct from", place.pr_number)
    .executeTakeFirst();
  if (still === undefined) return false;
  const serving = await tx
    .selectFrom("deployment")
    .selectAll()
    .where("project_id", "=", place.project_id)
    .where("channel", "=", place.channel)
    .where("pr_number", "is not distinct from", place.pr_number)
    .where("status", "in", ["running", "stopped"])
    .forUpdate()
    .execute();
  for (const deployment of serving) {
    await requestRemoval(tx, deployment, `nobody deployed to this channel for ${idleDays} days`);
    await recordAudit(tx, {
      caller: null,
      address: "",
      action: "deployment.expire",
      target: deployment.id,
      detail: { projectId: place.project_id, channel: place.channel, prNumber: place.pr_number, idleDays },
    });
  }
  if (serving.length > 0) return true;
  // One that is still on its way, however long it takes, has to keep its name.
  if (await isInUse(tx, place)) return false;
  await releaseChannel(tx, place);
  return true;
}
