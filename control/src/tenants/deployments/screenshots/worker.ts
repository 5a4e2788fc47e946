import { limits } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { endPush } from "../../../fleet/artifacts/store.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { captureTask } from "../../../fleet/tasks/kinds/capture.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import type { Log } from "../../../log.ts";
import type { Deployment, Screenshot } from "../../../stores/db/tables.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { readScreenshotFacts, type ScreenshotFactsDeps } from "./facts.ts";
import { type CaptureFile, nextScreenshotStep, type ScreenshotStep } from "./steps.ts";
import { countFailure, giveUp, lockPending, setCaptured } from "./store.ts";

export interface ScreenshotWorkerDeps extends ScreenshotFactsDeps {
  clock: Clock;
  fleet: Pick<Fleet, "observation" | "nodeLostAt" | "onChange">;
  registry: Pick<Registry, "getManifest" | "sizeOfBlob">;
  log: Log;
}

/** A picture takes seconds: for so long a worker stays with one that a node is at. */
const holdMs = 15_000;
const lookMs = 500;

/**
 * Work of kind `screenshot`: brings a capture to its end. Each round reads everything and does one step, which looks again at
 * what it rests on; one that is repeated or cut off does no harm. What takes longer is looked at now and then.
 */
export function screenshotWorker(deps: ScreenshotWorkerDeps): WorkHandler {
  const { clock, fleet } = deps;
  return async (item, signal) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    while (!signal.aborted) {
      const found = await readScreenshotFacts(deps, deploymentId);
      if (found === null) return { state: "done" };
      const step = nextScreenshotStep(found.facts);
      if (step.do === "end") return { state: "done" };
      if (step.do !== "wait") await perform(deps, found, step);
      else if (found.facts.task === null || item.ageMs >= holdMs || found.facts.ageMs >= holdMs) {
        return { retryAfterMs: recheckAfterMs(found.facts.ageMs), refund: true };
      } else await wake.wait(lookMs, signal);
    }
    return { retryAfterMs: 0, refund: true };
  };
}

interface Pictured {
  screenshot: Screenshot;
  deployment: Pick<Deployment, "channel" | "pr_number">;
}

function perform(deps: ScreenshotWorkerDeps, of: Pictured, step: Exclude<ScreenshotStep, { do: "wait" | "end" }>) {
  switch (step.do) {
    case "startTask":
      return startTask(deps, of, step.site);
    case "accept":
      return accept(deps, of, step);
    case "countFailure":
      return fail(deps, of, step);
    case "giveUp":
      return close(deps, of, step.reason);
    case "removeTask":
      return removeTasks(deps.db, [step.taskId]);
  }
}

/** In one transaction with the look whether there is one already: two workers ask for one task. */
const startTask = (
  { db }: ScreenshotWorkerDeps,
  { screenshot: { id, project_id }, deployment }: Pictured,
  { image, url, edge }: Extract<ScreenshotStep, { do: "startTask" }>["site"],
): Promise<void> =>
  db.transaction().execute(async (tx) => {
    // The project comes before the screenshot in the order of locks.
    const project = await tx
      .selectFrom("project")
      .select("id")
      .where("id", "=", project_id)
      .forKeyShare()
      .executeTakeFirst();
    if (project === undefined || (await lockPending(tx, id)) === null) return;
    const known = await tx
      .selectFrom("task")
      .select("id")
      .where("owner_id", "=", id)
      .where("desired", "=", "running")
      .limit(1)
      .executeTakeFirst();
    if (known !== undefined) return;
    const task = captureTask({ image, url, edge, targetRepository: repositories.screenshot(project_id) });
    await insertTask(tx, { id, project_id, ...deployment }, task, { replica: 0 });
  });

/** The node's word is checked: what people will look at has to be there, as long as it says, and under this digest. */
async function accept(
  deps: ScreenshotWorkerDeps,
  of: Pictured,
  { taskId, file }: { taskId: string; file: CaptureFile },
): Promise<void> {
  const { db, log } = deps;
  const { id, project_id: projectId, deployment_id: deploymentId } = of.screenshot;
  const repository = repositories.screenshot(projectId);
  if (!(await isThere(deps, repository, file))) {
    return fail(deps, of, { taskId, reason: "What the machine says that it stored is not in the registry." });
  }
  await db.transaction().execute(async (tx) => {
    if ((await lockPending(tx, id)) === null) return;
    await endPush(tx, { id: taskId, projectId, repository, kind: "screenshot" }, file);
    await setCaptured(tx, id, { repository, ...file });
    await removeTasks(tx, [taskId]);
    log.info({ deploymentId, projectId, sizeBytes: file.sizeBytes }, "a deployment has a new screenshot");
  });
}

/** False: there is no such picture, or a larger one than any may be. Throws while the registry does not answer. */
async function isThere(
  { registry }: ScreenshotWorkerDeps,
  repository: string,
  { digest, sizeBytes }: CaptureFile,
): Promise<boolean> {
  if (sizeBytes === 0 || sizeBytes > limits.screenshotBytesMax) return false;
  try {
    const { manifest } = await registry.getManifest(repository, digest);
    const [layer] = manifest.layers ?? [];
    return layer?.size === sizeBytes && (await registry.sizeOfBlob(repository, layer.digest)) === sizeBytes;
  } catch (error) {
    if (error instanceof RegistryError && error.code !== "ARTIFACT_REGISTRY_UNAVAILABLE") return false;
    throw error;
  }
}

const fail = (
  { db, log }: ScreenshotWorkerDeps,
  { screenshot: { id, project_id: projectId, deployment_id: deploymentId } }: Pictured,
  { taskId, reason }: { taskId: string; reason: string },
): Promise<void> =>
  db.transaction().execute(async (tx) => {
    if ((await lockPending(tx, id)) === null) return;
    await countFailure(tx, id, reason);
    await removeTasks(tx, [taskId]);
    log.warn({ deploymentId, projectId, why: reason }, "a screenshot came to nothing");
  });

const close = (
  { db, log }: ScreenshotWorkerDeps,
  { screenshot: { id, project_id: projectId, deployment_id: deploymentId } }: Pictured,
  reason: string,
): Promise<void> =>
  db.transaction().execute(async (tx) => {
    if ((await lockPending(tx, id)) === null) return;
    await giveUp(tx, id, reason);
    log.info({ deploymentId, projectId, why: reason }, "a screenshot is given up");
  });
