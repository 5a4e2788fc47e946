import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { steppedWork } from "../../../fleet/cluster/stepped-work.ts";
import type { Log } from "../../../log.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { readLifecycleFacts } from "./facts.ts";
import type { LifecycleOf, LifecycleRows } from "./rows.ts";
import { type LifecycleStep, nextLifecycleStep } from "./steps.ts";

export interface LifecycleDeps {
  clock: Clock;
  rows: LifecycleRows;
  fleet: Fleet;
  log: Log;
}

/**
 * Work of kind `lifecycle`: stops or starts what production serves. A stopped site keeps its hosts and
 * answers with the platform's page; starting it uses the artifact that it had, without a build.
 */
export function lifecycleWorker(deps: LifecycleDeps): WorkHandler {
  return steppedWork(deps, {
    wakenBy: ["placements", "routes", "edges"],
    read: (item) => readLifecycleFacts(deps, item),
    decide: ({ facts }) => nextLifecycleStep(facts),
    perform: ({ of }, step) => perform(deps, of, step),
  });
}

async function perform(
  { rows, log }: LifecycleDeps,
  of: LifecycleOf,
  step: Exclude<LifecycleStep, { do: "wait" | "end" }>,
): Promise<void> {
  const { deploymentId } = of;
  switch (step.do) {
    case "close":
      return rows.close(of);
    case "stopped":
      if (await rows.stopped(of)) log.info({ deploymentId, from: "running", to: "stopped" }, "deployment");
      return;
    case "make":
      return rows.make(of, step);
    case "open":
      return rows.open(of);
    case "started":
      if (await rows.started(of, step.detail)) log.info({ deploymentId, from: "stopped", to: "running" }, "deployment");
      return;
    case "fail":
      return rows.fail(of, step.message);
  }
}
