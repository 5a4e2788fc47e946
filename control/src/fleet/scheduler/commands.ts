// @pure
import type { Deployment, Plan } from "../../stores/db/tables.ts";
import { isRunOver, type RunValue } from "../cluster/keys.ts";
import { limitsOfPlan } from "../tasks/kinds/serve.ts";
import { setAside } from "./limits.ts";
import type { PlacementRequest, Reservation } from "./placement.ts";

const bytesPerMb = 1024 * 1024;

/** What is asked of a node for a command in the image of a deployment: what a container of it has, and any node that takes it. */
export const commandRequest = (
  of: Pick<PlacementRequest, "id" | "ownerId" | "specHash">,
  deployment: Pick<Deployment, "project_id" | "artifact_size" | "artifact_os" | "artifact_architecture">,
  plan: Plan,
): PlacementRequest => ({
  ...of,
  projectId: deployment.project_id,
  kind: "serve",
  ...setAside(limitsOfPlan(plan)),
  diskMb: Math.ceil((deployment.artifact_size ?? 0) / bytesPerMb),
  platform:
    deployment.artifact_os && deployment.artifact_architecture
      ? { os: deployment.artifact_os, architecture: deployment.artifact_architecture }
      : null,
  nodeSelector: plan.node_selector,
  pinnedTo: null,
  hasDockerfile: false,
});

/** Room that commands take on their nodes, from the offer until it is known that they are over. */
export const commandReservations = (
  runs: readonly { nodeId: string; run: Pick<RunValue, "projectId" | "ownerId" | "state" | "reserved"> }[],
): Reservation[] =>
  runs.flatMap(({ nodeId, run: { projectId, ownerId, state, reserved } }) =>
    reserved === undefined || isRunOver(state) ? [] : [{ ...reserved, nodeId, projectId, ownerId, kind: "serve" }],
  );
