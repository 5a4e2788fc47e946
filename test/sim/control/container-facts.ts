import type { Fleet } from "@svc/control/fleet/cluster/fleet";
import type { TaskFacts } from "@svc/control/fleet/tasks/deployment-status";
import type { TaskRow } from "../stores/postgres.ts";

/** Containers that are not to go, with what the fleet says: mirrors `control/src/tenants/deployments/facts.ts`. */
export const containerFacts = (fleet: Fleet, tasks: readonly TaskRow[], aheadMs: number): TaskFacts[] =>
  tasks
    .filter(({ desired }) => desired !== "removed")
    .map((task) => {
      const nodeId = fleet.findPlacement(task.id)?.nodeId ?? task.nodeId;
      const lostAt = nodeId === null ? null : fleet.nodeLostAt(nodeId);
      return {
        ...{ id: task.id, slot: task.replica, createdAt: task.createdAt, desired: task.desired, nodeId },
        refused: task.refused,
        nodeLostAt: lostAt && new Date(lostAt.getTime() - aheadMs),
        observation: nodeId === null ? null : fleet.observation(nodeId, task.id),
      };
    });
