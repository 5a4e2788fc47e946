import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../../log.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { Fleet } from "../../cluster/fleet.ts";
import { hasEnded, isDraining, isRunOver } from "../../cluster/keys.ts";
import { rulesOf } from "../../tasks/kinds/index.ts";
import { cancelRun } from "../../tasks/runs.ts";
import { type DrainingEdge, edgeDrainsOver } from "./edge-steps.ts";
import { type DrainingNode, type DrainStep, drainSteps } from "./steps.ts";
import type { DrainMove, DrainRows } from "./store.ts";

const timeIsUp = "its node is being emptied, and the time for that is up";

export interface DrainDeps {
  drains: DrainRows;
  etcd: Etcd;
  fleet: Fleet;
  log: Log;
  clock: Clock;
}

/** One round over all machines that are to be empty. Safe to repeat and to lose at any point. */
export async function drainOnce(deps: DrainDeps): Promise<void> {
  const { drains, log, clock } = deps;
  const steps = drainSteps(await readDraining(deps), clock.now());
  for (const step of steps) {
    const isDone = await carryOut(deps, step);
    if (isDone) log.info({ ...step }, "drain");
  }
  for (const { id: nodeId, generation } of edgeDrainsOver(await readDrainingEdges(deps), clock.now())) {
    if (await drains.move({ nodeId, generation }, finished)) log.info({ nodeId, generation }, "an edge is drained");
  }
}

const finished: DrainMove = { from: ["draining", "deadline"], to: "drained", event: "drained" };

async function readDrainingEdges({ drains, fleet }: DrainDeps): Promise<DrainingEdge[]> {
  const rows = await drains.edges();
  return rows.map(({ id, drain_generation, drain_deadline }) => ({
    ...{ id, generation: drain_generation, deadline: drain_deadline },
    isSilent: fleet.nodeLink(id).link === "unreachable",
    state: fleet.edgeApplied(id)?.state ?? null,
  }));
}

async function readDraining({ drains, fleet }: DrainDeps): Promise<DrainingNode[]> {
  const rows = await drains.nodes();
  if (rows.length === 0) return [];
  const held = Map.groupBy(
    fleet.placements().filter(({ nodeId, placement: { placementId } }) => {
      const said = fleet.observation(nodeId, placementId);
      return said === null || !hasEnded(said.observed);
    }),
    ({ nodeId }) => nodeId,
  );
  const runs = Map.groupBy(
    fleet.runs().filter(({ run }) => !isRunOver(run.state)),
    ({ nodeId }) => nodeId,
  );
  return rows.flatMap((row) =>
    row.drain === "none"
      ? []
      : [
          {
            ...{ id: row.id, state: row.drain, generation: row.drain_generation, deadline: row.drain_deadline },
            held: (held.get(row.id) ?? []).map(({ placement }) => ({
              ...{ taskId: placement.placementId, ownerKind: placement.ownerKind, ownerId: placement.ownerId },
              leaves: rulesOf(placement.kind).leaves,
              drains: isDraining(placement),
            })),
            runs: (runs.get(row.id) ?? []).map(({ run: { attemptId, kind, ownerKind, ownerId, state, cancel } }) => ({
              ...{ attemptId, kind, ownerKind, ownerId, isAskedToEnd: cancel },
              claimed: state === "granted" || state === "started",
            })),
          },
        ],
  );
}

/** False when the drain is not that one any more, or there was nothing left to do. */
function carryOut(deps: DrainDeps, step: DrainStep): Promise<boolean> {
  const { drains } = deps;
  switch (step.do) {
    case "finish":
      return drains.move(step, finished);
    case "reopen":
      return drains.move(step, { from: ["drained"], to: "draining", event: null });
    case "expire":
      return drains.move(step, { from: ["draining"], to: "deadline", event: "drain-deadline" });
    case "redo":
      return drains.redo(step, `${timeIsUp}; another node begins anew`);
    case "endDrain":
      return drains.endDrain(step);
    case "endRun":
      return endRun(deps, step);
  }
}

async function endRun(
  { drains, etcd, clock }: DrainDeps,
  step: Extract<DrainStep, { do: "endRun" }>,
): Promise<boolean> {
  const isWanted = await drains.noteEnd(step, timeIsUp);
  if (isWanted) await cancelRun(etcd, step.nodeId, step.attemptId, clock.now());
  return isWanted;
}
