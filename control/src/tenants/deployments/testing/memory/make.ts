import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import type { Abandoned } from "../../../../fleet/replicas/bring-up.ts";
import { emptySlots } from "../../../../fleet/tasks/kinds/serve.ts";
import type { DeploymentRow, Tx } from "./tables.ts";

/** As `fillSlots` of `fleet/replicas/make.ts`. */
export function fillSlots(
  { tables, now, notify }: Tx,
  { id, projectId, replicas }: DeploymentRow,
  { slots, abandoned }: { slots: readonly number[]; abandoned: readonly Abandoned[] },
): number[] {
  tables.removeTasks(abandoned.map(({ taskId }) => taskId));
  const filled = emptySlots(tables.wantedTasksOf(id), replicas).filter((slot) => slots.includes(slot));
  for (const replica of filled) {
    tables.insertContainer({ projectId, deploymentId: id, replica, cause: null, createdAt: now });
  }
  for (const _ of abandoned) tables.lines.push({ of: id, what: "task-abandoned", at: now });
  notify(taskTopic);
  return filled;
}
