import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, ReleaseStatus } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { DeploymentFacts } from "./facts.ts";
import type { ResolveImage } from "./oci/oci.ts";
import type { DeployStep } from "./steps.ts";

export interface DeployWorkerDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  registry: Registry;
  resolveImage: ResolveImage;
  log: Log;
}

/**
 * One effect per step; each may be repeated. `signal` is aborted when the worker has to stop, and, while a long
 * effect runs, when the deployment is not wanted any more.
 */
export type Effects<K extends DeployStep["do"] = DeployStep["do"]> = {
  [Kind in K]: (step: Extract<DeployStep, { do: Kind }>, at: DeploymentFacts, signal: AbortSignal) => Promise<void>;
};

/** What is recorded of a release command when its deployment fails. */
export type ReleaseOutcome = Partial<Pick<Deployment, "release_error" | "release_skipped_reason">> & {
  release_status: ReleaseStatus;
};
