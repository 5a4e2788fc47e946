import { taskTopic } from "../cluster/topics.ts";
import { branchTopic } from "../database-tables/news.ts";
import type { NodeRow, Reasons, SchedulerRows } from "../scheduler/store.ts";
import type { OpenTask } from "../tasks/store.ts";
import { inFencedMemory } from "./fenced.ts";
import type { MemoryNode, MemoryTables, MemoryTask, Transact } from "./tables.ts";

/** What rounds of the scheduler ask, answered from memory. */
export const memorySchedulerRows = (transact: Transact): SchedulerRows => ({
  nodes: () => transact(({ tables }) => nodeRowsOf(tables)),
  goneNodes: () =>
    transact(({ tables }) =>
      [...tables.nodes.values()].filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id),
    ),
  // In the order in which they were made, which is that of their epochs.
  openTasks: () => transact(({ tables, now }) => [...tables.open.values()].map((task) => openTask(task, now))),
  mirror: (epoch, { placed, reaped }) =>
    inFencedMemory(transact, epoch, ({ tables, now, notify }) => {
      const changed = [...placed.map(({ taskId }) => taskId), ...reaped].flatMap((id) => tables.tasks.get(id) ?? []);
      for (const { taskId, nodeId } of placed) {
        const task = tables.tasks.get(taskId);
        if (task !== undefined) Object.assign(task, { nodeId, refused: null });
      }
      for (const id of reaped) tables.reap(id, now);
      // Postgres announces by itself where the server of a branch is.
      for (const { kind, ownerId, projectId, nodeId } of changed)
        if (kind === "database") notify(branchTopic, [ownerId, projectId, nodeId ?? []].flat().join(" "));
    }),
  refuse: (taskIds, reasons) =>
    transact(({ tables }) => {
      for (const id of taskIds) {
        const task = tables.tasks.get(id);
        if (task !== undefined && !isSame(task.refused, reasons)) task.refused = reasons;
      }
    }),
  keep: ({ taskId, ownerId, reason }) =>
    transact(({ tables, now }) => {
      const task = tables.tasks.get(taskId);
      if (task === undefined || isSame(task.refused, { [reason]: 1 })) return;
      task.refused = { [reason]: 1 };
      tables.lines.push({ of: ownerId, what: "limits-kept", at: now });
    }),
  async endDrains(taskIds) {
    if (taskIds.length === 0) return;
    await transact(({ tables, notify }) => {
      tables.removeTasks(taskIds);
      notify(taskTopic);
    });
  },
});

const isSame = (a: Reasons | null, b: Reasons): boolean =>
  a !== null && Object.keys(a).length === Object.keys(b).length && Object.entries(b).every(([key, n]) => a[key] === n);

/** See `listNodeRows` of `scheduler/store.ts`. */
export const nodeRowsOf = ({ nodes }: Pick<MemoryTables, "nodes">): NodeRow[] =>
  [...nodes.values()]
    .filter(({ role, lifecycle }) => role === "node" && lifecycle === "active")
    .map(nodeRow)
    .sort((a, b) => (a.id < b.id ? -1 : 1));

const nodeRow = (node: MemoryNode): NodeRow => ({
  ...{ id: node.id, name: node.id, drain: node.drain, schedulable: node.schedulable },
  ...{ quarantined_at: node.quarantinedAt, disk_full: node.diskFull, memory_short: false, engine_stalled: false },
  ...{
    dockerfile_problem: null,
    labels: {},
    operator_labels: node.zone === undefined ? {} : { zone: node.zone },
    capacity: null,
    platform: null,
  },
});

const openTask = (task: MemoryTask, now: Date): OpenTask => ({
  ...{ id: task.id, project_id: task.projectId, owner_kind: task.ownerKind, owner_id: task.ownerId, kind: task.kind },
  ...{ channel: task.channel, epoch: task.epoch, desired: task.desired, drain_seconds: task.drainSeconds },
  ...{ spec_hash: task.specHash, memory_mb: task.memoryMb, cpu_millicores: task.cpuMillicores },
  ...{ pids_limit: task.pidsLimit, storage_mb: task.storageMb, reserved_memory_mb: task.reservedMemoryMb },
  ...{ reserved_cpu_millicores: task.reservedCpuMillicores, node_selector: {}, pinned_to: task.pinnedTo },
  ...{ node_id: task.nodeId, refused: task.refused, os: null, architecture: null, artifact_size: null },
  ...{
    database_size_mb: task.server?.sizeMb ?? null,
    has_dockerfile: false,
    waited_ms: now.getTime() - task.createdAt.getTime(),
  },
});
