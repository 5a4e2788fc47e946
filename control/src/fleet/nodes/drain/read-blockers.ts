import { isOpen, limits, type NodeBlocker } from "@svc/proto";
import type { Db } from "../../../stores/db/pool.ts";
import type { Task } from "../../../stores/db/tables.ts";
import type { FleetView, HeldPlacement } from "../../cluster/facts.ts";
import { edgeProgress } from "../../routes/progress.ts";
import { listHosts } from "../../tasks/deployment.ts";
import { rulesOf } from "../../tasks/kinds/index.ts";
import { kindOfRun } from "../../tasks/run-kinds/index.ts";
import { type HeldRow, readHeld, readHeldRuns } from "../held.ts";
import { type DrainSeen, type EdgesSeen, type HeldTask, runBlocker, taskBlocker } from "./blockers.ts";

type BlockerFleet = Pick<FleetView, "placements" | "runs" | "routesMeta" | "edgeApplied">;

/** What keeps a node from being empty, as far as a reply has room. */
export async function readBlockers(
  db: Db,
  fleet: BlockerFleet,
  nodeId: string,
  seen: DrainSeen,
): Promise<NodeBlocker[]> {
  const all = fleet.placements();
  const isHere = (each: { nodeId: string }) => each.nodeId === nodeId;
  const runs = await readHeldRuns(db, fleet.runs().filter(isHere).slice(0, limits.nodeBlockersShown));
  const rows = await readHeld(db, all.filter(isHere).slice(0, limits.nodeBlockersShown - runs.length));
  const replacements = await listReplacements(db, rows);
  const placed = new Map(all.map((placement) => [placement.placementId, placement]));
  const edges = edgesOf(db, fleet);
  const blockers = runs.map(
    ({ run, project, channel, prNumber }): NodeBlocker => ({
      ...{ kind: run.kind, project, channel, prNumber, replica: null },
      ...runBlocker(kindOfRun(run.kind), run.claimed, seen.link),
    }),
  );
  for (const row of rows) {
    const { kind } = row.placement;
    const task = await heldTask(row, { replacements, placed, edges });
    blockers.push({
      ...{ kind, project: row.project, channel: row.channel, prNumber: row.prNumber },
      replica: rulesOf(kind).leaves === "replaced" ? row.task.replica : null,
      ...taskBlocker(task, seen),
    });
  }
  return blockers;
}

type Replacement = Pick<Task, "id" | "owner_id" | "replica" | "epoch" | "refused">;

/** Containers that may take the place of one of `rows`. */
async function listReplacements(db: Db, rows: readonly HeldRow[]): Promise<Replacement[]> {
  const deploymentIds = [...new Set(rows.map(({ task }) => task.owner_id))];
  if (deploymentIds.length === 0) return [];
  return db
    .selectFrom("task")
    .select(["id", "owner_id", "replica", "epoch", "refused"])
    .where("owner_id", "in", deploymentIds)
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .where("retiring_at", "is", null)
    .execute();
}

/** Asks once per channel. */
function edgesOf(db: Db, fleet: BlockerFleet) {
  const known = new Map<string, Promise<EdgesSeen>>();
  return ({ task, channel, prNumber }: HeldRow): Promise<EdgesSeen> => {
    const key = JSON.stringify([task.project_id, channel, prNumber]);
    const at = { project_id: task.project_id, channel, pr_number: prNumber };
    const seen =
      known.get(key) ??
      listHosts(db, at).then((hosts) =>
        edgeProgress(
          db,
          fleet,
          hosts.map(({ host }) => host),
        ),
      );
    known.set(key, seen);
    return seen;
  };
}

async function heldTask(
  row: HeldRow,
  facts: {
    replacements: readonly Replacement[];
    placed: ReadonlyMap<string, HeldPlacement>;
    edges: (row: HeldRow) => Promise<EdgesSeen>;
  },
): Promise<HeldTask> {
  const { task, deployment, placement } = row;
  const { leaves } = rulesOf(placement.kind);
  const isOnItsWay = deployment !== null && isOpen(deployment.status);
  const isServed = deployment?.isServed === true;
  const isLeaving = leaves === "replaced" && (task.retiring_at !== null || (!isServed && !isOnItsWay));
  const replacement = facts.replacements.find(
    (other) => other.owner_id === task.owner_id && other.replica === task.replica && other.epoch > task.epoch,
  );
  return {
    ...{ leaves, whose: `${row.project}/${row.channel}`, desired: task.desired, isOnItsWay, isServed },
    leavingSince: isLeaving ? (task.retiring_at ?? deployment?.since ?? null) : null,
    edges: isLeaving ? await facts.edges(row) : null,
    replacement:
      replacement === undefined
        ? null
        : {
            isPlaced: facts.placed.has(replacement.id),
            isServing: facts.placed.get(replacement.id)?.serving ?? false,
            refused: replacement.refused,
          },
  };
}
