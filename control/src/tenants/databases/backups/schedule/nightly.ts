import type { Channel } from "@svc/proto";
import type { Random } from "@svc/runtime/random";
import { recordAudit } from "../../../../http/audit.ts";
import { planOfUser } from "../../../../identity/plans/of-user.ts";
import type { Log } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Backup } from "../../../../stores/db/tables.ts";
import { findBranch } from "../../store.ts";
import { countBackups, insertBackup } from "../store.ts";
import { nightStep } from "./rules.ts";
import { countOwn, deleteReplaced, endTurn, listDue, lockDue } from "./store.ts";

export interface NightlyDeps {
  db: Db;
  random: Random;
  log: Log;
}

/** What svc does by itself. */
const ownAct = { caller: null, address: "" } as const;

/**
 * Begins the backups that are due: once per night and channel, whoever asks and how often, also long after the night when control
 * was down in it. A project's wait for one another. Returns how many were begun.
 */
export async function beginNightlyBackups(deps: NightlyDeps): Promise<number> {
  let begun = 0;
  for (const due of await listDue(deps.db)) {
    try {
      if (await takeTurn(deps, due)) begun += 1;
    } catch (error) {
      // The others have their turn all the same, and this one in the next round.
      deps.log.warn({ err: error, ...due }, "a scheduled backup could not be begun");
    }
  }
  return begun;
}

/** True: it began a backup. */
const takeTurn = (
  { db, random, log }: NightlyDeps,
  { projectId, channel }: { projectId: string; channel: Channel },
): Promise<boolean> =>
  db.transaction().execute(async (tx) => {
    // The lock keeps the counts exact, and has whoever comes second find the turn taken.
    const project = await tx
      .selectFrom("project")
      .select(["id", "owner_id"])
      .where("id", "=", projectId)
      .where("deleting_at", "is", null)
      .where("suspended_at", "is", null)
      .forNoKeyUpdate()
      .executeTakeFirst();
    const schedule = project && (await lockDue(tx, projectId, channel));
    const branch = schedule && (await findBranch(tx, projectId, channel));
    if (!project || !schedule || branch?.status !== "ready") return false;
    const plan = await planOfUser(tx, project.owner_id);
    const { keep } = schedule;
    const step = nightStep({
      ...{ maxDatabases: plan.max_databases, maxBackups: plan.max_backups, keep },
      ...(await countBackups(tx, projectId)),
      own: await countOwn(tx, projectId, channel),
    });
    if (step.do === "wait") return false;
    if (step.do === "leaveOut") {
      const { problem } = step;
      await endTurn(tx, schedule, problem);
      await recordAudit(tx, { ...ownAct, action: "backup.leave-out", target: projectId, detail: { channel, problem } });
      log.warn({ projectId, channel, why: problem }, "a scheduled backup was left out");
      return false;
    }
    const { engine } = branch;
    const id = random.uuid();
    const made = { id, projectId, databaseId: branch.id, channel, engine, scheduledKeep: keep };
    if (!(await insertBackup(tx, made))) return false;
    await endTurn(tx, schedule, null);
    const detail = { channel, engine, backupId: id, scheduled: true };
    await recordAudit(tx, { ...ownAct, action: "backup.create", target: projectId, detail });
    return true;
  });

/** In the transaction in which a backup ended: those that it replaces go with it. A person's replaces none. */
export async function replaceOlder(tx: Db, backup: Backup): Promise<void> {
  const { project_id: projectId, channel, scheduled_keep: keep } = backup;
  if (keep === null) return;
  const backupIds = await deleteReplaced(tx, { projectId, channel, keep });
  if (backupIds.length === 0) return;
  const detail = { channel, backupIds, scheduled: true };
  await recordAudit(tx, { ...ownAct, action: "backup.delete", target: projectId, detail });
}
