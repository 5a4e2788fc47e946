// @pure
import { type ExplainedNode, nodeStatus } from "@svc/proto";
import { allProblems, type PlacementRequest } from "./filters.ts";
import { createRoom, type Reservation } from "./node-room.ts";
import { type Hints, scoreOf } from "./score.ts";
import type { NamedNode } from "./snapshot.ts";

/** What every node says to one more container, the one that `place` prefers first; nothing is placed. The numbers are its own. */
export function explainNodes(
  nodes: readonly NamedNode[],
  taken: readonly Reservation[],
  request: PlacementRequest,
  hints: Hints,
): ExplainedNode[] {
  const room = createRoom(nodes, taken);
  const replicas = room.replicasOf(request.ownerId);
  const zones = replicas.map((index) => room.nodes[index]?.zone);
  const explained = nodes.map((node, index): ExplainedNode => {
    const free = room.nodes[index];
    if (free === undefined) throw new Error("a node without room");
    const problems = allProblems(free, request);
    const inZone = zones.filter((zone) => zone === free.zone).length;
    const { total, fit, image, zone, failures } = scoreOf(free, request, hints, inZone);
    return {
      id: node.id,
      name: node.name,
      status: nodeStatus({ ...node, lifecycle: "active", link: node.quarantined ? "quarantined" : node.link }),
      fits: problems.length === 0,
      problems,
      zone: free.zone === "" ? null : free.zone,
      replicas: replicas.filter((at) => at === index).length,
      score:
        problems.length === 0
          ? { total: rounded(total), fit: rounded(fit), image: rounded(image), zone: rounded(zone), failures }
          : null,
    };
  });
  return explained.sort(
    (a, b) =>
      Number(b.fits) - Number(a.fits) ||
      a.replicas - b.replicas ||
      (b.score?.total ?? 0) - (a.score?.total ?? 0) ||
      (a.name < b.name ? -1 : 1),
  );
}

const rounded = (part: number): number => Math.round(part * 100) / 100;
