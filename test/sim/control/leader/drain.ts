import { isDraining as drains, hasEnded, isRunOver } from "@svc/control/fleet/cluster/keys";
import { type DrainingNode, drainSteps } from "@svc/control/fleet/nodes/drain/steps";
import { rulesOf } from "@svc/control/fleet/tasks/kinds/index";
import type { Work } from "../../kernel/kernel.ts";
import type { NodeRow } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { cancelRun } from "../runs.ts";

/** One look at every node that is to be empty: mirrors `control/src/fleet/nodes/drain/drain.ts`. */
export function* drainOnce(replica: Replica): Work {
  const { process, world } = replica;
  const rows = yield* replica.transact((tables) =>
    [...tables.nodes.values()].filter(isDraining).map((node) => ({ ...node })),
  );
  const nodes = rows.map((row) => drainingNode(replica, row));
  for (const step of drainSteps(nodes, process.now())) {
    const isStill = yield* replica.transact((tables) => {
      const node = tables.nodes.get(step.nodeId);
      if (node === undefined || node.drain === "none" || node.drainGeneration !== step.generation) return false;
      if (step.do === "finish" && node.drain !== "drained") node.drain = "drained";
      if (step.do === "reopen" && node.drain === "drained") node.drain = "draining";
      if (step.do === "expire" && node.drain === "draining") node.drain = "deadline";
      if (step.do === "endDrain") tables.removeTasks([step.taskId], world.kernel.nowMs);
      return true;
    });
    if (isStill && step.do === "endRun") yield* cancelRun(replica, step.nodeId, step.attemptId);
  }
}

type DrainingRow = NodeRow & { drain: DrainingNode["state"] };

const isDraining = (node: NodeRow): node is DrainingRow =>
  node.drain !== "none" && node.lifecycle === "active" && node.role === "node";

/** With what is still on it. */
function drainingNode({ fleet, views }: Replica, row: DrainingRow): DrainingNode {
  const held = [...views.placementsByNode.of(row.id).values()].filter(({ value }) => {
    const said = fleet.observation(row.id, value.placementId);
    return said === null || !hasEnded(said.observed);
  });
  const runs = [...views.runsByNode.of(row.id).values()].filter(({ value }) => !isRunOver(value.state));
  return {
    ...{ id: row.id, state: row.drain, generation: row.drainGeneration, deadline: row.drainDeadline },
    held: held.map(({ value }) => ({
      ...{ taskId: value.placementId, ownerKind: value.ownerKind, ownerId: value.ownerId },
      leaves: rulesOf(value.kind).leaves,
      drains: drains(value),
    })),
    runs: runs.map(({ value }) => ({
      ...{ attemptId: value.attemptId, kind: value.kind, ownerKind: value.ownerKind, ownerId: value.ownerId },
      isAskedToEnd: value.cancel,
      claimed: value.state === "granted" || value.state === "started",
    })),
  };
}
