import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { inTransaction } from "../../../stores/db/transaction.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { Fleet } from "../../cluster/fleet.ts";
import { hasEnded, isDraining, isRunOver } from "../../cluster/keys.ts";
import { removeTasks } from "../../tasks/change.ts";
import { rulesOf } from "../../tasks/kinds/index.ts";
import { ownerOf } from "../../tasks/owners/index.ts";
import { cancelRun } from "../../tasks/runs.ts";
import { insertNodeEvents } from "../events/store.ts";
import { type DrainingEdge, edgeDrainsOver } from "./edge-steps.ts";
import { type DrainingNode, type DrainStep, drainSteps } from "./steps.ts";

const timeIsUp = "its node is being emptied, and the time for that is up";

export interface DrainDeps {
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  log: Log;
  clock: Clock;
}

/** One round over all machines that are to be empty. Safe to repeat and to lose at any point. */
export async function drainOnce(deps: DrainDeps): Promise<void> {
  const { db, fleet, log, clock } = deps;
  const steps = drainSteps(await readDraining(db, fleet), clock.now());
  for (const step of steps) {
    const isDone = await carryOut(deps, step);
    if (isDone) log.info({ ...step }, "drain");
  }
  for (const { id: nodeId, generation } of edgeDrainsOver(await readDrainingEdges(db, fleet), clock.now())) {
    if (await moveDrain(db, { nodeId, generation }, finished)) log.info({ nodeId, generation }, "an edge is drained");
  }
}

const finished = { from: ["draining", "deadline"], to: "drained", event: "drained" } satisfies Parameters<
  typeof moveDrain
>[2];

async function readDrainingEdges(db: Db, fleet: Fleet): Promise<DrainingEdge[]> {
  const rows = await db
    .selectFrom("node")
    .select(["id", "drain_generation", "drain_deadline"])
    .where("drain", "=", "draining")
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .execute();
  return rows.map(({ id, drain_generation, drain_deadline }) => ({
    ...{ id, generation: drain_generation, deadline: drain_deadline },
    isSilent: fleet.nodeLink(id).link === "unreachable",
    state: fleet.edgeApplied(id)?.state ?? null,
  }));
}

async function readDraining(db: Db, fleet: Fleet): Promise<DrainingNode[]> {
  const rows = await db
    .selectFrom("node")
    .select(["id", "drain", "drain_generation", "drain_deadline"])
    .where("drain", "!=", "none")
    .where("role", "=", "node")
    .where("lifecycle", "=", "active")
    .execute();
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
  switch (step.do) {
    case "finish":
      return moveDrain(deps.db, step, finished);
    case "reopen":
      return moveDrain(deps.db, step, { from: ["drained"], to: "draining", event: null });
    case "expire":
      return moveDrain(deps.db, step, { from: ["draining"], to: "deadline", event: "drain-deadline" });
    case "redo":
      return redoTask(deps.db, step);
    case "endDrain":
      return endDrain(deps.db, step);
    case "endRun":
      return endRun(deps, step);
  }
}

type Of<Kind extends DrainStep["do"]> = Extract<DrainStep, { do: Kind }>;

function moveDrain(
  db: Db,
  { nodeId, generation }: Pick<DrainStep, "nodeId" | "generation">,
  move: {
    from: ("draining" | "deadline" | "drained")[];
    to: "draining" | "deadline" | "drained";
    event: string | null;
  },
): Promise<boolean> {
  return inTransaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable("node")
      .set({ drain: move.to })
      .where("id", "=", nodeId)
      .where("lifecycle", "=", "active")
      .where("drain", "in", move.from)
      .where("drain_generation", "=", generation)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    if (move.event !== null) await insertNodeEvents(tx, [{ nodeId, kind: move.event }]);
    return true;
  });
}

/** Keeps the drain from being cancelled until the transaction ends; false when it is not that one any more. */
async function holdDrain(tx: Db, { nodeId, generation }: Pick<DrainStep, "nodeId" | "generation">): Promise<boolean> {
  const row = await tx
    .selectFrom("node")
    .select("id")
    .where("id", "=", nodeId)
    .where("drain", "!=", "none")
    .where("drain_generation", "=", generation)
    .forShare()
    .executeTakeFirst();
  return row !== undefined;
}

function redoTask(db: Db, step: Of<"redo">): Promise<boolean> {
  const { taskId, ownerId } = step;
  const owner = ownerOf(step.ownerKind);
  return inTransaction(db, async (tx) => {
    if (!(await owner.lockForRedo(tx, ownerId)) || !(await holdDrain(tx, step))) return false;
    const task = await tx.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst();
    if (task?.desired !== "running") return false;
    await removeTasks(tx, [taskId]);
    await owner.addLine(tx, ownerId, { phase: "task-abandoned", detail: `${timeIsUp}; another node begins anew` });
    return true;
  });
}

function endDrain(db: Db, step: Of<"endDrain">): Promise<boolean> {
  const { taskId } = step;
  return inTransaction(db, async (tx) => {
    if (!(await holdDrain(tx, step))) return false;
    const task = await tx.selectFrom("task").select("drain_seconds").where("id", "=", taskId).executeTakeFirst();
    // The view is a moment behind.
    if (task === undefined || task.drain_seconds === 0) return false;
    await removeTasks(tx, [taskId]);
    return true;
  });
}

async function endRun({ db, etcd, clock }: DrainDeps, step: Of<"endRun">): Promise<boolean> {
  const { nodeId, attemptId, ownerId, claimed } = step;
  const owner = ownerOf(step.ownerKind);
  const line = { phase: `${step.kind}-ended`, detail: timeIsUp };
  const isWanted = await inTransaction(db, async (tx) => {
    const isNew = claimed && (await owner.isNewLine(tx, ownerId, line.phase));
    if (!(await holdDrain(tx, step))) return false;
    if (isNew) await owner.addLine(tx, ownerId, line);
    return true;
  });
  if (isWanted) await cancelRun(etcd, nodeId, attemptId, clock.now());
  return isWanted;
}
