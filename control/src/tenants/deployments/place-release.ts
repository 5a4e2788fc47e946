import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { type Decision, place } from "../../fleet/scheduler/placement.ts";
import { listReservations, namedNodes } from "../../fleet/scheduler/snapshot.ts";
import type { DeployRow, DeployRows } from "./rows.ts";

/** Which node would take the release command at this moment, or how many do not and why. */
export async function placeRelease<Found extends DeployRow>(
  { rows, fleet }: { rows: Pick<DeployRows<Found>, "releaseRequest" | "nodes">; fleet: Fleet },
  of: Found,
): Promise<Decision> {
  const request = await rows.releaseRequest(of);
  const nodes = namedNodes(await rows.nodes(), fleet);
  return place(nodes, listReservations(fleet), [request]).get(request.id) ?? { refused: {} };
}
