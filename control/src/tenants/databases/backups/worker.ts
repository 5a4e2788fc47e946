import { limits } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import { clearAlert, raiseAlert } from "../../../fleet/alerts/raise.ts";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { endPush } from "../../../fleet/artifacts/store.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { backupTask } from "../../../fleet/tasks/kinds/backup.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup } from "../../../stores/db/tables.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
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

/** Small databases take seconds: for so long a worker stays with one. */
const holdMs = 15_000;
const lookMs = 500;

/**
 * Work of kind `backup`: brings a backup to its end. Each round reads everything and does one step, which looks again at what
 * it rests on; one that is repeated or cut off does no harm. What takes longer is looked at now and then.
 */
export function backupWorker(deps: BackupWorkerDeps): WorkHandler {
  const { clock, fleet } = deps;
  return async (item, signal) => {
    const { backupId } = item.payload as { backupId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    while (!signal.aborted) {
      const found = await readBackupFacts(deps, backupId);
      if (found === null) return { state: "done" };
      const step = nextBackupStep(found.facts);
      if (step.do === "end") return { state: "done" };
      if (step.do !== "wait") await perform(deps, found.backup, step);
      else if (item.ageMs >= holdMs || found.facts.ageMs >= holdMs) {
        return { retryAfterMs: recheckAfterMs(found.facts.ageMs), refund: true };
      } else await wake.wait(lookMs, signal);
    }
    return { retryAfterMs: 0, refund: true };
  };
}

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

/** In one transaction with the look whether there is one already: two workers ask for one task. */
const startTask = (
  { db }: BackupWorkerDeps,
  { id, project_id }: Backup,
  { nodeId, image }: { nodeId: string; image: string },
): Promise<void> =>
  db.transaction().execute(async (tx) => {
    // The project comes before the backup in the order of locks.
    const project = await tx
      .selectFrom("project")
      .select("owner_id")
      .where("id", "=", project_id)
      .forKeyShare()
      .executeTakeFirst();
    const backup = await lockOpenBackup(tx, id);
    if (project === undefined || backup === null) return;
    const known = await tx.selectFrom("task").select("id").where("owner_id", "=", id).limit(1).executeTakeFirst();
    if (known !== undefined) return;
    const { channel, engine, database_id: databaseId } = backup;
    const work = {
      ...{ databaseId, engine, image },
      targetRepository: repositories.backup(project_id),
      timeoutSeconds: limits.backupStuckSeconds,
      maxDumpBytes: maxDumpBytes(await planOfUser(tx, project.owner_id)),
    };
    await insertTask(tx, { id, project_id, channel, pr_number: null }, backupTask(work, nodeId), { replica: 0 });
  });

/** The node's word is checked: what people will download has to be there, as long as it says, and under this digest. */
async function accept(
  deps: BackupWorkerDeps,
  backup: Backup,
  { taskId, file }: { taskId: string; file: BackupFile },
): Promise<void> {
  const { db, log } = deps;
  const repository = repositories.backup(backup.project_id);
  if (!(await isThere(deps, repository, file))) {
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

/** False: there is no such file. Throws while the registry does not answer. */
async function isThere(
  { registry }: BackupWorkerDeps,
  repository: string,
  { digest, sizeBytes, dumpBytes }: BackupFile,
): Promise<boolean> {
  if (dumpBytes === 0) return false;
  try {
    const { manifest } = await registry.getManifest(repository, digest);
    const [layer] = manifest.layers ?? [];
    return layer?.size === sizeBytes && (await registry.sizeOfBlob(repository, layer.digest)) === sizeBytes;
  } catch (error) {
    if (error instanceof RegistryError && error.code !== "ARTIFACT_REGISTRY_UNAVAILABLE") return false;
    throw error;
  }
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
