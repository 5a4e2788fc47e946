import type { NodeAxes, NodeCircumstances } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";
import type { FleetView } from "../cluster/facts.ts";
import { edgesFollowing, edgesInRotation } from "../routes/progress.ts";

/** The live facts that decide what may be done with a machine. */
export type CircumstancesFleet = Pick<FleetView, "nodeLink" | "placements" | "runs" | "edgeApplied" | "routesMeta">;

/** What operators decided, from its row, and how it is connected, from the fleet. */
export const axesOf = (
  row: Pick<Node, "id" | "lifecycle" | "schedulable" | "drain" | "quarantined_at">,
  fleet: Pick<FleetView, "nodeLink">,
): NodeAxes => ({
  lifecycle: row.lifecycle,
  schedulable: row.schedulable,
  drain: row.drain,
  link: row.quarantined_at === null ? fleet.nodeLink(row.id).link : "quarantined",
});

/** What decides what may be done with a machine now. */
export async function circumstancesOf(db: Db, fleet: CircumstancesFleet, row: Node): Promise<NodeCircumstances> {
  const holds = ({ nodeId }: { nodeId: string }) => nodeId === row.id;
  return {
    role: row.role,
    axes: axesOf(row, fleet),
    heldCount: fleet.placements().filter(holds).length + fleet.runs().filter(holds).length,
    databaseCount: await countDatabases(db, row.id),
    hasOtherEdge: row.role === "edge" && (await hasOtherEdge(db, row.id)),
    isBehind: row.role === "edge" && isBehind(fleet, row.id),
  };
}

/** Of projects that are off the air no server runs: the data is all there is. */
async function countDatabases(db: Db, nodeId: string): Promise<number> {
  const { count } = await db
    .selectFrom("database")
    .select(({ fn }) => fn.countAll<number>().as("count"))
    .where("node_id", "=", nodeId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Whether it serves an older route table than the published one, as far as is known. */
export const isBehind = (fleet: Pick<FleetView, "nodeLink" | "edgeApplied" | "routesMeta">, edgeId: string): boolean =>
  fleet.nodeLink(edgeId).link !== "connected" || edgesFollowing(fleet, [edgeId], []) === 0;

/** Whether an edge says how far it is with sending its visitors away. */
export const saysHowFarItIs = (fleet: Pick<FleetView, "nodeLink" | "edgeApplied">, edgeId: string): boolean =>
  fleet.nodeLink(edgeId).link !== "unreachable" && fleet.edgeApplied(edgeId)?.state !== undefined;

/** Whether deployments wait for another edge than this one. */
const hasOtherEdge = async (db: Db, id: string): Promise<boolean> =>
  (await edgesInRotation(db)).some((edgeId) => edgeId !== id);
