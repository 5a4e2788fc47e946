import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import type { RunOutcome } from "../../fleet/tasks/run-rows.ts";
import type { Log } from "../../log.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { DeploymentFacts } from "./facts.ts";
import type { DeployRow, DeployRows, ReleaseOutcome } from "./rows.ts";
import type { DeployStep } from "./steps.ts";

export interface DeployWorkerDeps<Found extends DeployRow> {
  clock: Clock;
  rows: DeployRows<Found>;
  /** How an artifact is made. */
  builds: (fail: Fail<Found>) => Effects<BuildSteps, Found>;
  etcd: Etcd;
  fleet: Fleet;
  log: Log;
}

export type BuildSteps = "resolveImage" | "createBuild" | "abandonTask" | "acceptBuild";

/**
 * One effect per step; each may be repeated. `signal` is aborted when the worker has to stop, and, while a long
 * effect runs, when the deployment is not wanted any more.
 */
export type Effects<K extends DeployStep["do"], Found extends DeployRow> = {
  [Kind in K]: (
    step: Extract<DeployStep, { do: Kind }>,
    at: DeploymentFacts<Found>,
    signal: AbortSignal,
  ) => Promise<void>;
};

/** The one place where a deployment ends badly: status, reason, and everything it started goes. */
export type Fail<Found extends DeployRow> = (
  at: DeploymentFacts<Found>,
  code: string,
  message: string,
  release?: ReleaseOutcome,
  outcome?: RunOutcome,
) => Promise<void>;
