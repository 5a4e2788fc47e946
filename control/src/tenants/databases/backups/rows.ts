import { limits } from "@svc/proto";
import { clearAlert, raiseAlert } from "../../../fleet/alerts/raise.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { endPush } from "../../../fleet/artifacts/store.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { type BackupTaskSpec, backupTask } from "../../../fleet/tasks/kinds/backup.ts";
import type { NewTask } from "../../../fleet/tasks/kinds/kind.ts";
import { beginOneShot } from "../../../fleet/tasks/one-shot-work.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup, Plan } from "../../../stores/db/tables.ts";
import { holdsBranch } from "../changes/store.ts";
import { lockBranch } from "../store.ts";
import { type BackupRow, findBackupRow } from "./facts.ts";
import { maxDumpBytes } from "./rules.ts";
import { replaceOlder } from "./schedule/rows.ts";
import type { BackupFile } from "./steps.ts";
import { lockOpenBackup, setComplete, setFailed, setRunning } from "./store.ts";

/** Where a backup is made, and in what. */
export interface BackupPlace {
  nodeId: string;
  image: string;
}

/**
 * What work on backups asks of Postgres. Each change is one transaction that looks again whether the backup is under way still:
 * otherwise it does nothing. Each may be repeated.
 */
export interface BackupRows {
  /** Null: it is no more. */
  find(id: string): Promise<BackupRow | null>;
  /** It gets the task that makes it, unless it had one before, or a change has the branch in its hands, or it is somewhere else by now. */
  startTask(of: Backup, at: BackupPlace): Promise<void>;
  markRunning(id: string): Promise<void>;
  /** Its file is stored; what made it, and what it replaces, goes with that. False: it is over already. */
  complete(of: Backup, made: { taskId: string; file: BackupFile }): Promise<boolean>;
  /** What made it goes with that. False: it is over already. */
  fail(of: Backup, reason: string): Promise<boolean>;
  /** What made one that a control of an earlier version has ended. */
  removeTask(taskId: string): Promise<void>;
}

/** What makes a backup. */
export const taskOf = (
  { project_id, database_id: databaseId, engine }: Backup,
  { nodeId, image }: BackupPlace,
  plan: Pick<Plan, "db_size_mb">,
): NewTask<BackupTaskSpec> =>
  backupTask(
    {
      ...{ databaseId, engine, image, targetRepository: repositories.backup(project_id) },
      ...{ timeoutSeconds: limits.backupStuckSeconds, maxDumpBytes: maxDumpBytes(plan) },
    },
    nodeId,
  );

export function backupRows(db: Db): BackupRows {
  /** Runs `act` with the backup held, if it is under way; false: it is not. */
  const locked = ({ id }: Backup, act: (tx: Db) => Promise<unknown>): Promise<boolean> =>
    db.transaction().execute(async (tx) => {
      if ((await lockOpenBackup(tx, id)) === null) return false;
      await act(tx);
      return true;
    });
  /** Before anybody can delete it: nobody would look for what made it any more. */
  const dismiss = async (tx: Db, { id }: Backup): Promise<void> => {
    const tasks = tx.selectFrom("task").select("id").where("owner_id", "=", id).where("desired", "=", "running");
    await removeTasks(
      tx,
      (await tasks.execute()).map((task) => task.id),
    );
  };
  const alertOf = ({ project_id: projectId, channel: subject }: Backup) =>
    ({ projectId, event: "backupFailed", subject }) as const;

  return {
    find: (id) => findBackupRow(db, id),
    startTask: (of, at) =>
      beginOneShot(db, of, {
        // A change that has the branch in its hands ends its server, and a dump in the middle of it.
        async lock(tx) {
          const branch = await lockBranch(tx, of.database_id);
          if (branch?.node_id !== at.nodeId || (await holdsBranch(tx, branch.id))) return null;
          return lockOpenBackup(tx, of.id);
        },
        mayFollow: false,
        make: async (tx, backup, { owner_id }) => ({
          task: taskOf(backup, at, await planOfUser(tx, owner_id)),
          of: { channel: backup.channel, pr_number: null },
        }),
      }),
    markRunning: async (id) => void (await setRunning(db, id)),
    complete: (of, { taskId, file }) =>
      locked(of, async (tx) => {
        const repository = repositories.backup(of.project_id);
        await endPush(tx, { id: taskId, projectId: of.project_id, repository, kind: "backup" }, file);
        await setComplete(tx, of.id, { repository, ...file });
        await dismiss(tx, of);
        await clearAlert(tx, alertOf(of));
        await replaceOlder(tx, of);
      }),
    fail: (of, reason) =>
      locked(of, async (tx) => {
        await setFailed(tx, of.id, reason);
        await dismiss(tx, of);
        await raiseAlert(tx, { ...alertOf(of), detail: reason });
        await replaceOlder(tx, of);
      }),
    removeTask: (taskId) => removeTasks(db, [taskId]),
  };
}
