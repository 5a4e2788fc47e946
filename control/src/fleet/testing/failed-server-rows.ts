import { databaseKind } from "../../identity/plans/reconcile-databases.ts";
import { workTopic } from "../../stores/work/queue.ts";
import type { FailedServerRows } from "../databases/failed.ts";
import type { MemoryTransaction, Transact } from "./tables.ts";

/** What rounds about servers that failed ask, answered from memory: a branch that has a server is there. */
export const memoryFailedServerRows = (transact: Transact): FailedServerRows => ({
  lookAt: (ids) =>
    transact((tx) => {
      for (const { kind, ownerId, projectId } of tx.tables.open.values())
        if (kind === "database" && ids.includes(ownerId)) wakeDatabase(tx, { id: ownerId, projectId });
    }),
});

/** See `wakeDatabases` of `identity/plans/reconcile-databases.ts`. */
export function wakeDatabase(
  { tables, now, notify }: MemoryTransaction,
  { id, projectId }: { id: string; projectId: string },
): void {
  const key = `${databaseKind}/${id}`;
  const waiting = [...tables.work.items.values()].filter((item) => item.key === key && item.lease === null);
  for (const item of waiting) item.runAt = now;
  if (waiting.length > 0) notify(workTopic, databaseKind);
  else tables.work.add({ now, notify }, { kind: databaseKind, key, payload: { databaseId: id, projectId } });
}
