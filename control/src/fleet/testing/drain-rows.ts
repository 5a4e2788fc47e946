import { taskTopic } from "../cluster/topics.ts";
import type { DrainOf, DrainRows } from "../nodes/drain/store.ts";
import type { MemoryNode, MemoryTables, Transact } from "./tables.ts";

/** What rounds about machines that are to be empty ask, answered from memory. */
export const memoryDrainRows = (transact: Transact): DrainRows => ({
  nodes: () => transact(({ tables }) => listDrains(tables, "node", ["draining", "deadline", "drained"])),
  edges: () => transact(({ tables }) => listDrains(tables, "edge", ["draining"])),
  move: ({ nodeId, generation }, { from, to, event }) =>
    transact(({ tables, now }) => {
      const node = tables.nodes.get(nodeId);
      if (node?.lifecycle !== "active" || node.drainGeneration !== generation) return false;
      if (!from.some((state) => state === node.drain)) return false;
      node.drain = to;
      if (event !== null) tables.lines.push({ of: nodeId, what: event, at: now });
      return true;
    }),
  redo: (step) =>
    transact(({ tables, now, notify }) => {
      if (
        !tables.mayRedo(step.ownerId) ||
        !isDrain(tables, step) ||
        tables.tasks.get(step.taskId)?.desired !== "running"
      )
        return false;
      tables.removeTasks([step.taskId]);
      tables.lines.push({ of: step.ownerId, what: "task-abandoned", at: now });
      notify(taskTopic);
      return true;
    }),
  endDrain: (step) =>
    transact(({ tables, notify }) => {
      if (!isDrain(tables, step) || (tables.tasks.get(step.taskId)?.drainSeconds ?? 0) === 0) return false;
      tables.removeTasks([step.taskId]);
      notify(taskTopic);
      return true;
    }),
  noteEnd: (step) =>
    transact(({ tables, now }) => {
      if (!isDrain(tables, step)) return false;
      const what = `${step.kind}-ended`;
      if (step.claimed && tables.isNewLine(step.ownerId, what)) tables.lines.push({ of: step.ownerId, what, at: now });
      return true;
    }),
});

const listDrains = (tables: MemoryTables, role: MemoryNode["role"], states: readonly MemoryNode["drain"][]) =>
  [...tables.nodes.values()]
    .filter((node) => node.role === role && node.lifecycle === "active" && states.includes(node.drain))
    .map(({ id, drain, drainGeneration, drainDeadline }) => ({
      ...{ id, drain, drain_generation: drainGeneration, drain_deadline: drainDeadline },
    }));

/** Whether the machine's drain is still that one. */
function isDrain(tables: MemoryTables, { nodeId, generation }: DrainOf): boolean {
  const node = tables.nodes.get(nodeId);
  return node !== undefined && node.drain !== "none" && node.drainGeneration === generation;
}
