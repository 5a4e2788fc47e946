import { Observed } from "@svc/proto/node";
import type { Task } from "../task.ts";
import { isTerminal } from "../view.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

/** Builds, from the source to what is pushed. */
export const buildExecutor = ({ builder }: Pick<RunnerDeps, "builder">): Executor<"build"> => ({
  async build(_, { task, signal }) {
    const { placement } = task.record();
    if (placement.spec.case !== "build") return;
    const result = await builder.build(
      {
        placementId: task.id,
        projectId: placement.projectId,
        spec: placement.spec.value,
        limits: {
          memoryMb: placement.resources?.memoryMb ?? 0,
          cpuMillicores: placement.resources?.cpuMillicores ?? 0,
          pidsLimit: placement.resources?.pidsLimit ?? 0,
          storageMb: placement.resources?.storageMb ?? 0,
        },
        onStart: () => task.update({ observed: Observed.RUNNING }),
      },
      signal,
    );
    task.update({ observed: Observed.COMPLETED, build: result });
  },
});

/** Takes back what a build that does not come to its end has made. */
export async function discardBuild({ builder }: Pick<RunnerDeps, "builder">, task: Task): Promise<void> {
  const { placement, status } = task.record();
  if (placement.spec.case === "build" && !isTerminal(status.observed)) {
    await builder.discard(task.id, placement.spec.value);
  }
}
