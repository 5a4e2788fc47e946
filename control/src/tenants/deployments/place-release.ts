import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { setAside } from "../../fleet/scheduler/limits.ts";
import type { Decision } from "../../fleet/scheduler/placement.ts";
import { place } from "../../fleet/scheduler/placement.ts";
import { listReservations, listSchedulableNodes } from "../../fleet/scheduler/snapshot.ts";
import { limitsOfPlan } from "../../fleet/tasks/kinds/serve.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";

/** Which node would take the release command at this moment, or how many do not and why. */
export async function placeRelease(
  { db, fleet }: { db: Db; fleet: Fleet },
  deployment: Deployment,
  project: Project,
): Promise<Decision> {
  const plan = await planOfUser(db, project.owner_id);
  const request = {
    id: deployment.id,
    projectId: project.id,
    ownerId: deployment.id,
    kind: "serve" as const,
    ...setAside(limitsOfPlan(plan)),
    // The command runs in the image that the site's containers will have; where it is matters little.
    specHash: "",
    diskMb: Math.ceil((deployment.artifact_size ?? 0) / bytesPerMb),
    platform: platformOf(deployment),
    nodeSelector: plan.node_selector,
    pinnedTo: null,
    hasDockerfile: false,
  };
  const nodes = await listSchedulableNodes(db, fleet);
  return place(nodes, listReservations(fleet), [request]).get(request.id) ?? { refused: {} };
}

const bytesPerMb = 1024 * 1024;

const platformOf = (deployment: { artifact_os: string | null; artifact_architecture: string | null }) =>
  deployment.artifact_os && deployment.artifact_architecture
    ? { os: deployment.artifact_os, architecture: deployment.artifact_architecture }
    : null;
