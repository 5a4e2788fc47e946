import { nextDeploymentStatus } from "@svc/proto";
import type { DeploymentRow } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";

/** There is nothing left to do. */
export const done = { state: "done" } as const;

/** Moves a deployment on; false when `event` does not apply to it. */
export function move(
  { world: { postgres } }: Replica,
  row: DeploymentRow,
  event: Parameters<typeof nextDeploymentStatus>[1],
): boolean {
  const next = nextDeploymentStatus(row.status, event);
  if (next === null) return false;
  row.status = next;
  row.statusSince = postgres.now();
  return true;
}
