import { limits } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { endPush } from "../../../fleet/artifacts/store.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { captureTask } from "../../../fleet/tasks/kinds/capture.ts";
import { beginOneShot, isStored, oneShotWork } from "../../../fleet/tasks/one-shot-work.ts";
import type { Log } from "../../../log.ts";
import type { Deployment, Screenshot } from "../../../stores/db/tables.ts";
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

/** Work of kind `screenshot`: brings a capture to its end. */
export const screenshotWorker = (deps: ScreenshotWorkerDeps): WorkHandler =>
  oneShotWork(deps, {
    async read(payload) {
      const found = await readScreenshotFacts(deps, (payload as { deploymentId: string }).deploymentId);
      if (found === null) return null;
      const { facts, ...of } = found;
      return { of, step: nextScreenshotStep(facts), ageMs: facts.ageMs, isFar: facts.task === null };
    },
    perform: ({ of }, step: Exclude<ScreenshotStep, { do: "wait" | "end" }>) => perform(deps, of, step),
  });

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

const startTask = (
  { db }: ScreenshotWorkerDeps,
  { screenshot, deployment: { channel, pr_number } }: Pictured,
  site: Extract<ScreenshotStep, { do: "startTask" }>["site"],
) =>
  beginOneShot(db, screenshot, {
    lock: (tx) => lockPending(tx, screenshot.id),
    mayFollow: true,
    make: async () => ({
      task: captureTask({ ...site, targetRepository: repositories.screenshot(screenshot.project_id) }),
      of: { channel, pr_number },
    }),
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
  if (!isPicture(file) || !(await isStored(deps.registry, repository, file))) {
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

/** Larger than any may be is none either. */
const isPicture = ({ sizeBytes }: CaptureFile): boolean => sizeBytes > 0 && sizeBytes <= limits.screenshotBytesMax;

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
