import type { Db } from "../db/pool.ts";
import { notify, taskChannel } from "../deployments/store.ts";
import type { Log } from "../log.ts";
import { setDiskFull } from "../nodes/store.ts";
import { persist } from "./session.ts";

export interface NodeConditions {
  diskFull: boolean;
}

/** Stores what an agent says of its node with every renewal, whenever it changes. */
export interface ConditionWriter {
  report(conditions: NodeConditions): void;
}

/** Writes one at a time, the newest; what could not be stored is tried again until `signal` aborts. */
export function createConditionWriter({
  db,
  nodeId,
  log,
  signal,
}: {
  db: Db;
  nodeId: string;
  log: Log;
  signal: AbortSignal;
}): ConditionWriter {
  let wanted: NodeConditions | null = null;
  let stored: NodeConditions | null = null;
  let writing = false;

  async function write(): Promise<void> {
    while (wanted !== null && wanted.diskFull !== stored?.diskFull && !signal.aborted) {
      const next = wanted;
      const store = async () => {
        if (!(await setDiskFull(db, nodeId, next.diskFull))) return;
        log.info({ nodeId, diskFull: next.diskFull }, "node condition");
        await notify(db, taskChannel);
      };
      await persist(store, { signal, log, what: "store the node's condition" });
      stored = next;
    }
  }

  return {
    report(conditions) {
      wanted = conditions;
      if (writing) return;
      writing = true;
      write()
        .catch((error: unknown) => log.warn({ err: error, nodeId }, "the node's condition was not stored"))
        .finally(() => {
          writing = false;
        });
    },
  };
}
