import { Observed } from "@svc/proto/node";
import { TaskFailure } from "../failure.ts";
import { reservedOf } from "../limits.ts";
import type { Task } from "../task.ts";
import { isTerminal } from "../view.ts";
import { placementLabels } from "./container.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

/** Captures a site, from the browser's image to the picture that is pushed. */
export const captureExecutor = ({
  captures,
  images,
}: Pick<RunnerDeps, "captures" | "images">): Executor<"pull-browser" | "capture"> => ({
  async "pull-browser"(_, { task, signal }) {
    const { placement } = task.record();
    if (placement.spec.case !== "capture") return;
    const { image } = placement.spec.value;
    if (image === undefined) throw new TaskFailure("NODE_TASK_FAILED", "The assignment names no image.");
    const needs = { command: true, mayBeLocal: true, projectId: placement.projectId, workId: task.id };
    await images.ensure(image, { ...needs, onPull: () => task.update({ observed: Observed.PULLING }) }, signal);
    task.imageReady = true;
  },

  async capture(_, { task, signal }) {
    const { placement } = task.record();
    if (placement.spec.case !== "capture") return;
    const { image, url, edge, pass, targetRepository, timeoutSeconds, width, height, maxBytes } = placement.spec.value;
    const { digest, sizeBytes } = await captures.take(
      {
        placementId: task.id,
        labels: placementLabels(placement),
        image: image?.reference ?? "",
        ...{ url, edge, pass, targetRepository, timeoutSeconds, width, height, maxBytes: Number(maxBytes) },
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
    task.update({ observed: Observed.COMPLETED, capture: { digest, sizeBytes: BigInt(sizeBytes) } });
  },
});

/** Takes back what a capture that does not come to its end has made. */
export async function discardCapture({ captures }: Pick<RunnerDeps, "captures">, task: Task): Promise<void> {
  const { placement, status } = task.record();
  if (placement.spec.case === "capture" && !isTerminal(status.observed)) await captures.discard(task.id);
}
