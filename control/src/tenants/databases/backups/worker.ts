import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { isStored, oneShotWork } from "../../../fleet/tasks/one-shot-work.ts";
import type { Log } from "../../../log.ts";
import type { Backup } from "../../../stores/db/tables.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { foundBackup } from "./facts.ts";
import type { BackupRows } from "./rows.ts";
import { type BackupFile, type BackupStep, nextBackupStep } from "./steps.ts";

export interface BackupWorkerDeps {
  clock: Clock;
  rows: BackupRows;
  fleet: Pick<Fleet, "observation" | "onChange">;
  registry: Pick<Registry, "getManifest" | "sizeOfBlob">;
  log: Log;
}

/** Work of kind `backup`: brings a backup to its end. */
export const backupWorker = (deps: BackupWorkerDeps): WorkHandler =>
  oneShotWork(deps, {
    async read(payload) {
      const row = await deps.rows.find((payload as { backupId: string }).backupId);
      if (row === null) return null;
      const { backup, facts } = foundBackup(row, deps.fleet);
      return { backup, step: nextBackupStep(facts), ageMs: facts.ageMs, isFar: false };
    },
    perform: ({ backup }, step: Exclude<BackupStep, { do: "wait" | "end" }>) => perform(deps, backup, step),
  });

function perform(deps: BackupWorkerDeps, backup: Backup, step: Exclude<BackupStep, { do: "wait" | "end" }>) {
  switch (step.do) {
    case "startTask":
      return deps.rows.startTask(backup, step);
    case "markRunning":
      return deps.rows.markRunning(backup.id);
    case "accept":
      return accept(deps, backup, step);
    case "fail":
      return fail(deps, backup, step.reason);
    case "removeTask":
      return deps.rows.removeTask(step.taskId);
  }
}

/** The node's word is checked: what people will download has to be there, as long as it says, and under this digest. */
async function accept(
  deps: BackupWorkerDeps,
  backup: Backup,
  { taskId, file }: { taskId: string; file: BackupFile },
): Promise<void> {
  const { rows, registry } = deps;
  if (file.dumpBytes === 0 || !(await isStored(registry, repositories.backup(backup.project_id), file))) {
    return fail(deps, backup, "What the machine says that it stored is not in the registry.");
  }
  if (await rows.complete(backup, { taskId, file })) say(deps, backup, "complete");
}

async function fail(deps: BackupWorkerDeps, backup: Backup, reason: string): Promise<void> {
  if (await deps.rows.fail(backup, reason)) say(deps, backup, "failed", reason);
}

const say = ({ log }: BackupWorkerDeps, { id, project_id, status }: Backup, to: string, why?: string) =>
  log.info({ backupId: id, projectId: project_id, from: status, to, why }, "backup");
