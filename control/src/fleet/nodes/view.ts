import {
  limits,
  type NodeAction,
  type NodeDetail,
  type NodeEdge,
  type NodeListItem,
  type NodePlacement,
  nodeActionProblem,
  nodeActions,
  nodeStatus,
} from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";
import type { FleetView, HeldPlacement, HeldRun } from "../cluster/facts.ts";
import { shownLabels, zoneOf } from "../cluster/labels.ts";
import { axesOf, circumstancesOf } from "./circumstances.ts";
import { readBlockers } from "./drain/read-blockers.ts";
import { listNodeEvents } from "./events/store.ts";
import { readHeld } from "./held.ts";
import { placeOf } from "./place.ts";
import { findNodeRow, listNodeRows } from "./store.ts";
import { readUsed } from "./used.ts";

const iso = (at: Date | null) => at?.toISOString() ?? null;

/** The whole fleet as administrators see it, removed machines last: no addresses, no identities of tenants' tasks. */
export async function listNodes(db: Db, fleet: FleetView): Promise<NodeListItem[]> {
  const placements = Map.groupBy(fleet.placements(), ({ nodeId }) => nodeId);
  const runs = Map.groupBy(fleet.runs(), ({ nodeId }) => nodeId);
  return (await listNodeRows(db)).map((row) =>
    nodeItem(row, fleet, { placements: placements.get(row.id) ?? [], runs: runs.get(row.id) ?? [] }),
  );
}

/** One machine with all that is known of it; null when there is none of that id. */
export async function findNode(
  db: Db,
  fleet: FleetView,
  id: string,
  { now, schedulerEnabled }: { now: Date; schedulerEnabled: boolean },
): Promise<NodeDetail | null> {
  const row = await findNodeRow(db, id);
  if (row === null) return null;
  const isHere = ({ nodeId }: { nodeId: string }) => nodeId === row.id;
  const placements = fleet.placements().filter(isHere);
  const item = nodeItem(row, fleet, { placements, runs: fleet.runs().filter(isHere) });
  const { link } = axesOf(row, fleet);
  const drains = row.drain === "draining" || row.drain === "deadline";
  const [held, used, blockers, events, actions] = await Promise.all([
    readHeld(db, placements.slice(0, limits.nodePlacementsShown)),
    readUsed(
      db,
      placements.map(({ placementId }) => placementId),
      now,
    ),
    drains ? readBlockers(db, fleet, row.id, { link, now, movesDatabases: row.drain_moves_databases }) : [],
    listNodeEvents(db, row.id, limits.nodeEventsShown),
    schedulerEnabled ? allowedActions(db, fleet, row) : [],
  ]);
  return {
    ...item,
    platform: row.platform,
    schedulable: row.schedulable,
    used,
    operatorLabels: row.operator_labels,
    createdAt: row.created_at.toISOString(),
    certificateExpiresAt: iso(row.certificate_expires_at),
    drain: { ...item.drain, blockers },
    placements: held.map(
      ({ placement, project, channel, prNumber, task }): NodePlacement => ({
        ...{ kind: placement.kind, project, channel, prNumber, replica: task.replica },
        state: placement.observed ?? "placed",
        health: placement.health,
        since: placement.changedAt,
      }),
    ),
    events: events.map(({ at, kind, detail }) => ({ at: at.toISOString(), kind, detail })),
    actions,
  };
}

async function allowedActions(db: Db, fleet: FleetView, row: Node): Promise<NodeAction[]> {
  const circumstances = await circumstancesOf(db, fleet, row);
  return nodeActions.filter((action) => nodeActionProblem(action, circumstances) === null);
}

const sum = (placements: readonly HeldPlacement[], amount: (placement: HeldPlacement) => number): number =>
  placements.reduce((total, each) => total + amount(each), 0);

function nodeItem(
  row: Node,
  fleet: FleetView,
  { placements, runs }: { placements: readonly HeldPlacement[]; runs: readonly HeldRun[] },
): NodeListItem {
  const axes = axesOf(row, fleet);
  const since = row.quarantined_at ?? fleet.nodeLink(row.id).since;
  const isNode = row.role === "node";
  return {
    ...{ id: row.id, name: row.name, role: row.role, status: nodeStatus(axes) },
    link: { state: axes.link, since: since.toISOString() },
    lastSeenAt: iso(row.last_seen_at),
    version: row.version,
    // Edges take no work.
    capacity: isNode ? row.capacity : null,
    allocated: isNode
      ? {
          memoryMb: sum(placements, ({ memoryMb }) => memoryMb),
          cpuMillicores: sum(placements, ({ cpuMillicores }) => cpuMillicores),
          pids: sum(placements, ({ pidsLimit }) => pidsLimit),
        }
      : null,
    diskFull: row.disk_full,
    memoryShort: row.memory_short,
    engineStalled: row.engine_stalled,
    dockerfileProblem: row.dockerfile_problem,
    refusal: row.refusal,
    // Of one that does not answer nobody knows.
    runningPlacements: axes.link === "unreachable" ? 0 : placements.filter(({ running }) => running).length,
    labels: shownLabels(row),
    zone: zoneOf(row),
    drain: {
      state: row.drain,
      startedAt: iso(row.drain_started_at),
      deadline: iso(row.drain_deadline),
      remaining: placements.length + runs.length,
    },
    edge: row.role === "edge" ? edgeItem(row, fleet) : null,
    reason: row.reason,
  };
}

function edgeItem(row: Node, fleet: FleetView): NodeEdge {
  const { phase = null, lacks = null, unready = null } = fleet.edgeApplied(row.id)?.state ?? {};
  const isSeen = row.lifecycle === "active" && row.last_seen_at !== null;
  return { inRotation: isSeen && placeOf(row).inRotation, phase, lacks, unready };
}
