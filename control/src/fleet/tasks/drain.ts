import { drainSecondsOf, type Manifest } from "@svc/proto";
import type { DeploymentStatus, Plan } from "../../stores/db/tables.ts";

/** How long a container that was replaced may serve what is open by its manifest and its owner's plan. */
export const drainSecondsIn = (manifest: Manifest, plan: Pick<Plan, "max_drain_seconds">): number =>
  Math.min(drainSecondsOf(manifest), plan.max_drain_seconds);

/** What is left of the time when `waitedMs` of it have passed. */
export const drainSecondsAfter = (drainSeconds: number, waitedMs: number): number =>
  Math.max(0, Math.ceil(drainSeconds - waitedMs / 1000));

export interface LeavingFacts {
  status: DeploymentStatus;
  /** The project is being deleted, or is suspended. */
  projectIsOff: boolean;
  /** Its channel serves another deployment, is stopped, or serves nothing. */
  channel: "serves" | "stopped" | "empty";
  /** See `drainSecondsIn`. */
  drainSeconds: number;
  /** How long it has had since no edge sends anybody there. */
  waitedMs: number;
}

/**
 * For how many seconds more the containers of a deployment that serves no more may serve what is open. Only what was
 * replaced has that time: whoever stops, suspends or deletes a site wants it to be over.
 */
export const drainSecondsLeft = ({ status, projectIsOff, channel, drainSeconds, waitedMs }: LeavingFacts): number =>
  status === "superseded" && !projectIsOff && channel === "serves" ? drainSecondsAfter(drainSeconds, waitedMs) : 0;
