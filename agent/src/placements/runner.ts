import { HealthState, Observed } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import { backupExecutor, discardBackup } from "./executors/backup.ts";
import { buildExecutor, discardBuild } from "./executors/build.ts";
import { captureExecutor, discardCapture } from "./executors/capture.ts";
import { containerExecutor } from "./executors/container.ts";
import { databaseExecutor } from "./executors/database.ts";
import type { Executor, Runner, RunnerDeps } from "./executors/executor.ts";
import { keeperExecutor } from "./executors/keeper.ts";
import { discardProof, proofExecutor } from "./executors/proof.ts";
import { serveExecutor } from "./executors/serve.ts";
import { createLastWords } from "./last-words.ts";
import { heldPort } from "./task.ts";

const waitMostMs = 60 * 60 * 1000;

/** What is done for each step, whatever the kind of the placement. */
export function createRunner(deps: RunnerDeps): Runner {
  const all = { ...deps, lastWords: createLastWords(deps) };
  const container = containerExecutor(all);
  return {
    ...commonExecutor(deps),
    ...container,
    ...databaseExecutor({ ...all, start: container.start }),
    ...keeperExecutor({ ...all, start: container.start }),
    ...serveExecutor(all),
    ...buildExecutor(deps),
    ...backupExecutor(deps),
    ...captureExecutor(deps),
    ...proofExecutor(deps),
  };
}

/** Waiting, and coming to rest. */
function commonExecutor(deps: RunnerDeps): Executor<"rest" | "wait" | "settle"> {
  const { clock, ports } = deps;
  return {
    rest: (_, { signal }) => untilAborted(signal),

    // The step after it waits for the rest: a longer delay would overflow the timer and fire at once.
    wait: ({ untilMs }, { signal }) =>
      pause(clock, Math.min(Math.max(0, untilMs - clock.now().getTime()), waitMostMs), signal),

    async settle({ observed }, { task }) {
      await discardBuild(deps, task);
      await discardBackup(deps, task);
      await discardProof(deps, task);
      await discardCapture(deps, task);
      const port = heldPort(task.record());
      task.update({ observed, health: HealthState.UNSPECIFIED, upstream: "" });
      if (observed === Observed.REMOVED && port !== 0) ports.rest(port);
    },
  };
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
