import { taskTopic } from "../cluster/topics.ts";
import type { LostRows } from "../nodes/fence/store.ts";
import type { Transact } from "./tables.ts";

/** What rounds about machines that are lost ask, answered from memory. */
export const memoryLostRows = (transact: Transact): LostRows => ({
  gone: () =>
    transact(({ tables }) =>
      [...tables.nodes.values()].filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id),
    ),
  forgetStopped: (taskIds) =>
    transact(({ tables, notify }) => {
      const stopped = taskIds.filter((id) => tables.tasks.get(id)?.desired === "stopped");
      if (stopped.length === 0) return;
      tables.removeTasks(stopped);
      notify(taskTopic);
    }),
  tellOnce: ({ ownerId }, { phase: what }) =>
    transact(({ tables, now }) => {
      if (tables.isNewLine(ownerId, what)) tables.lines.push({ of: ownerId, what, at: now });
    }),
});
