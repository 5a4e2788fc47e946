import { databaseEngines, failureMessage } from "@svc/proto";
import { Observed } from "@svc/proto/node";
import { TaskFailure } from "../failure.ts";
import { reservedOf } from "../limits.ts";
import type { Task } from "../task.ts";
import { isTerminal } from "../view.ts";
import { placementLabels } from "./container.ts";
import { isDatabaseId } from "./database.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

/** Proves a copy, from its newest base to what was counted. */
export const proofExecutor = ({ proofs }: Pick<RunnerDeps, "proofs">): Executor<"prove-copy"> => ({
  async "prove-copy"(_, { task, signal }) {
    const { placement } = task.record();
    if (placement.spec.case !== "proof") return;
    const { copyId, databaseId, engine: named, image, timeoutSeconds } = placement.spec.value;
    const engine = databaseEngines.find((known) => known === named);
    if (engine === undefined || !isDatabaseId(copyId) || !isDatabaseId(databaseId)) {
      throw new TaskFailure("DATABASE_SPEC_INVALID", failureMessage("DATABASE_SPEC_INVALID"));
    }
    const { coveredAt, bytes, tables, tookMs } = await proofs.make(
      {
        placementId: task.id,
        labels: placementLabels(placement),
        ...{ copyId, databaseId, engine, image: image?.reference ?? "", timeoutSeconds },
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
    const proof = { coveredAt, bytes, tookMs: BigInt(tookMs), tables: tables.map((table) => ({ ...table })) };
    task.update({ observed: Observed.COMPLETED, proof });
  },
});

/** Takes back what a proof that does not come to its end has made. */
export async function discardProof({ proofs }: Pick<RunnerDeps, "proofs">, task: Task): Promise<void> {
  const { placement, status } = task.record();
  if (placement.spec.case === "proof" && !isTerminal(status.observed)) await proofs.discard(task.id);
}
