import { databaseEngines, failureMessage } from "@svc/proto";
import { Observed } from "@svc/proto/node";
import { TaskFailure } from "../failure.ts";
import { reservedOf } from "../limits.ts";
import type { Task } from "../task.ts";
import { isTerminal } from "../view.ts";
import { placementLabels } from "./container.ts";
import { isDatabaseId } from "./database.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

/** Backs a database up, from its server to what is pushed. */
export const backupExecutor = ({ backups }: Pick<RunnerDeps, "backups">): Executor<"backup"> => ({
  async backup(_, { task, signal }) {
    const { placement } = task.record();
    if (placement.spec.case !== "backup") return;
    const { databaseId, engine: named, image, maxDumpBytes, ...spec } = placement.spec.value;
    const engine = databaseEngines.find((known) => known === named);
    if (engine === undefined || !isDatabaseId(databaseId)) {
      throw new TaskFailure("DATABASE_SPEC_INVALID", failureMessage("DATABASE_SPEC_INVALID"));
    }
    const { digest, sizeBytes, dumpBytes } = await backups.make(
      {
        placementId: task.id,
        labels: placementLabels(placement),
        ...{ databaseId, engine, image: image?.reference ?? "" },
        ...{ password: spec.password, targetRepository: spec.targetRepository, timeoutSeconds: spec.timeoutSeconds },
        maxDumpBytes: Number(maxDumpBytes),
        limits: {
          memoryMb: placement.resources?.memoryMb ?? 0,
          cpuMillicores: placement.resources?.cpuMillicores ?? 0,
          pidsLimit: placement.resources?.pidsLimit ?? 0,
        },
        reserved: reservedOf(placement.resources),
        onStart: () => task.update({ observed: Observed.RUNNING }),
      },
      signal,
    );
    const backup = { digest, sizeBytes: BigInt(sizeBytes), dumpBytes: BigInt(dumpBytes) };
    task.update({ observed: Observed.COMPLETED, backup });
  },
});

/** Takes back what a backup that does not come to its end has made. */
export async function discardBackup({ backups }: Pick<RunnerDeps, "backups">, task: Task): Promise<void> {
  const { placement, status } = task.record();
  if (placement.spec.case === "backup" && !isTerminal(status.observed)) await backups.discard(task.id);
}
