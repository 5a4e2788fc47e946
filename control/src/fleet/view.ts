import type { Etcd } from "../stores/etcd/index.ts";
import type { FleetView } from "./cluster/facts.ts";
import type { Fleet } from "./cluster/fleet.ts";
import { hasEnded, isRunOver } from "./cluster/keys.ts";
import { readLink } from "./cluster/read-link.ts";
import { readRouting } from "./routes/routing.ts";
import { takenBy } from "./scheduler/limits.ts";
import type { SchedulerMemory } from "./scheduler/score.ts";

/** The part of the fleet's facts that endpoints show. */
export const fleetView = (fleet: Fleet, ports: { memory: SchedulerMemory; etcd: Etcd }): FleetView => ({
  lateFailures: () => ports.memory.hints?.failures ?? null,
  replicas: () => fleet.replicas().map(({ serverId, startedAt }) => ({ serverId, startedAt })),
  isConnected: (nodeId) => fleet.nodeLostAt(nodeId) === null,
  nodeLink: (nodeId) => fleet.nodeLink(nodeId),
  placements: () =>
    fleet.placements().flatMap(({ nodeId, placement }) => {
      const said = fleet.observation(nodeId, placement.placementId);
      if (said !== null && hasEnded(said.observed)) return [];
      const running = said?.observed === "running";
      return [
        {
          ...{ nodeId, placementId: placement.placementId, kind: placement.kind },
          ...takenBy(placement, said ?? undefined),
          running,
          serving: running && said.health === "healthy" && said.upstream !== null,
          ...{ observed: said?.observed ?? null, health: said?.health ?? null, changedAt: said?.changedAt ?? null },
        },
      ];
    }),
  observation: (nodeId, placementId) => fleet.observation(nodeId, placementId),
  runs: () =>
    fleet
      .runs()
      .filter(({ run }) => !isRunOver(run.state))
      .map(({ nodeId, run: { attemptId, kind, ownerKind, ownerId, state } }) => ({
        ...{ nodeId, attemptId, kind, ownerKind, ownerId },
        claimed: state === "granted" || state === "started",
      })),
  routesMeta: () => fleet.routesMeta(),
  edgeApplied: (edgeId) => fleet.edgeApplied(edgeId),
  readLink: (nodeId) => readLink(ports.etcd, fleet, nodeId),
  readRouting: () => readRouting(ports.etcd, []),
});
