import type { Channel } from "@svc/proto";
import { recordAudit } from "../../../../http/audit.ts";
import { planOfUser, plansOfProjects } from "../../../../identity/plans/of-user.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Backup } from "../../../../stores/db/tables.ts";
import { findBranch } from "../../store.ts";
import { countBackups, insertBackup } from "../store.ts";
import { keptOfOwn, type NightStep, nightStep } from "./rules.ts";
import { countOwn, deleteReplaced, endTurn, listDue, listSchedules, lockDue } from "./store.ts";

/** A channel whose database is backed up every night. */
export interface Turn {
  projectId: string;
  channel: Channel;
}

/** What is asked of Postgres for backups that nobody asks for. */
export interface NightRows {
  /** Whose turn is due. */
  due(): Promise<Turn[]>;
  /**
   * What becomes of a turn, carried out in the transaction that decides it: each night has one, whoever takes it and how often. A
   * backup that begins gets the id. Null: it had its turn, or is not to have one now.
   */
  take(turn: Turn, backupId: string): Promise<NightStep | null>;
}

/** What svc does by itself. */
const ownAct = { caller: null, address: "" } as const;

export const nightRows = (db: Db): NightRows => ({
  due: () => listDue(db),
  take: ({ projectId, channel }, id) =>
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
      if (!project || !schedule || branch?.status !== "ready") return null;
      const plan = await planOfUser(tx, project.owner_id);
      const { keep } = schedule;
      const step = nightStep({
        ...{ maxDatabases: plan.max_databases, maxBackups: plan.max_backups, keep },
        ...(await countBackups(tx, projectId)),
        own: await countOwn(tx, projectId, channel),
      });
      if (step.do === "wait") return step;
      if (step.do === "leaveOut") {
        const { problem } = step;
        await endTurn(tx, schedule, problem);
        const detail = { channel, problem };
        await recordAudit(tx, { ...ownAct, action: "backup.leave-out", target: projectId, detail });
        return step;
      }
      const { engine } = branch;
      const made = { id, projectId, databaseId: branch.id, channel, engine, scheduledKeep: keep };
      if (!(await insertBackup(tx, made))) return null;
      await endTurn(tx, schedule, null);
      const detail = { channel, engine, backupId: id, scheduled: true };
      await recordAudit(tx, { ...ownAct, action: "backup.create", target: projectId, detail });
      return step;
    }),
});

/** In the transaction in which a backup ended: those that it replaces go with it. A person's replaces none. */
export async function replaceOlder(tx: Db, backup: Backup): Promise<void> {
  const { project_id: projectId, channel, scheduled_keep: asked } = backup;
  if (asked === null) return;
  const schedule = (await listSchedules(tx, projectId)).find((each) => each.channel === channel);
  const { complete } = await countBackups(tx, projectId);
  const own = await countOwn(tx, projectId, channel);
  const maxBackups = (await plansOfProjects(tx, [projectId])).get(projectId)?.max_backups ?? 0;
  const keep = keptOfOwn({ asked, keep: schedule?.keep ?? null, own, complete, maxBackups });
  const backupIds = await deleteReplaced(tx, { projectId, channel, keep });
  if (backupIds.length === 0) return;
  const detail = { channel, backupIds, scheduled: true };
  await recordAudit(tx, { ...ownAct, action: "backup.delete", target: projectId, detail });
}
