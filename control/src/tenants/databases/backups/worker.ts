import { limits } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { clearAlert, raiseAlert } from "../../../fleet/alerts/raise.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { endPush } from "../../../fleet/artifacts/store.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { backupTask } from "../../../fleet/tasks/kinds/backup.ts";
import { beginOneShot, isStored, oneShotWork } from "../../../fleet/tasks/one-shot-work.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup } from "../../../stores/db/tables.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { readBackupFacts } from "./facts.ts";
import { maxDumpBytes } from "./rules.ts";
import { replaceOlder } from "./schedule/nightly.ts";
import { type BackupFile, type BackupStep, nextBackupStep } from "./steps.ts";
import { lockOpenBackup, setComplete, setFailed, setRunning } from "./store.ts";

export interface BackupWorkerDeps {
  clock: Clock;
  db: Db;
  fleet: Pick<Fleet, "observation" | "onChange">;
  registry: Pick<Registry, "getManifest" | "sizeOfBlob">;
  log: Log;
}

/** Work of kind `backup`: brings a backup to its end. */
export const backupWorker = (deps: BackupWorkerDeps): WorkHandler =>
  oneShotWork(deps, {
    async read(payload) {
      const found = await readBackupFacts(deps, (payload as { backupId: string }).backupId);
      if (found === null) return null;
      const { backup, facts } = found;
      return { backup, step: nextBackupStep(facts), ageMs: facts.ageMs, isFar: false };
    },
    perform: ({ backup }, step: Exclude<BackupStep, { do: "wait" | "end" }>) => perform(deps, backup, step),
  });

function perform(deps: BackupWorkerDeps, backup: Backup, step: Exclude<BackupStep, { do: "wait" | "end" }>) {
  switch (step.do) {
    case "startTask":
      return startTask(deps, backup, step);
    case "markRunning":
      return setRunning(deps.db, backup.id);
    case "accept":
      return accept(deps, backup, step);
    case "fail":
      return fail(deps, backup, step.reason);
    case "removeTask":
      return removeTasks(deps.db, [step.taskId]);
  }
}

const startTask = ({ db }: BackupWorkerDeps, of: Backup, { nodeId, image }: { nodeId: string; image: string }) =>
  beginOneShot(db, of, {
    lock: (tx) => lockOpenBackup(tx, of.id),
    mayFollow: false,
    async make(tx, { channel, engine, database_id: databaseId }, { owner_id }) {
      const work = {
        ...{ databaseId, engine, image },
        targetRepository: repositories.backup(of.project_id),
        timeoutSeconds: limits.backupStuckSeconds,
        maxDumpBytes: maxDumpBytes(await planOfUser(tx, owner_id)),
      };
      return { task: backupTask(work, nodeId), of: { channel, pr_number: null } };
    },
  });

/** The node's word is checked: what people will download has to be there, as long as it says, and under this digest. */
async function accept(
  deps: BackupWorkerDeps,
  backup: Backup,
  { taskId, file }: { taskId: string; file: BackupFile },
): Promise<void> {
  const { db, log } = deps;
  const repository = repositories.backup(backup.project_id);
  if (file.dumpBytes === 0 || !(await isStored(deps.registry, repository, file))) {
    return fail(deps, backup, "What the machine says that it stored is not in the registry.");
  }
  await db.transaction().execute(async (tx) => {
    if ((await lockOpenBackup(tx, backup.id)) === null) return;
    await endPush(tx, { id: taskId, projectId: backup.project_id, repository, kind: "backup" }, file);
    await setComplete(tx, backup.id, { repository, ...file });
    await clearAlert(tx, alertOf(backup));
    await replaceOlder(tx, backup);
    log.info({ backupId: backup.id, projectId: backup.project_id, from: backup.status, to: "complete" }, "backup");
  });
}

const alertOf = ({ project_id: projectId, channel: subject }: Backup) =>
  ({ projectId, event: "backupFailed", subject }) as const;

const fail = ({ db, log }: BackupWorkerDeps, backup: Backup, reason: string): Promise<void> =>
  db.transaction().execute(async (tx) => {
    const { id, project_id, status } = backup;
    if ((await lockOpenBackup(tx, id)) === null) return;
    await setFailed(tx, id, reason);
    await raiseAlert(tx, { ...alertOf(backup), detail: reason });
    await replaceOlder(tx, backup);
    log.info({ backupId: id, projectId: project_id, from: status, to: "failed", why: reason }, "backup");
  });
