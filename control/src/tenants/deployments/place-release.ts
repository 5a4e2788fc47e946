import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { commandRequest } from "../../fleet/scheduler/commands.ts";
import { type Decision, place } from "../../fleet/scheduler/placement.ts";
import { listReservations, listSchedulableNodes } from "../../fleet/scheduler/snapshot.ts";
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
  // The command runs in the image that the site's containers will have; where it is matters little.
  const request = commandRequest({ id: deployment.id, ownerId: deployment.id, specHash: "" }, deployment, plan);
  const nodes = await listSchedulableNodes(db, fleet);
  return place(nodes, listReservations(fleet), [request]).get(request.id) ?? { refused: {} };
}
