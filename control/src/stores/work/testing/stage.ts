import { systemClock } from "@svc/runtime/system";
import { createLog } from "../../../log.ts";
import { createListener, type Listener } from "../../db/listen.ts";
import { testDatabase } from "../../db/testing.ts";
import { enqueue, hasOpenWork, type NewWork } from "../queue.ts";
import { type WorkRows, workRows } from "../rows.ts";
import { MemoryQueue, memoryWorkRows, type QueueTransaction } from "./memory.ts";

/** A queue of one kind of store, as a test of what it promises fills it. */
export interface Stage extends AsyncDisposable {
  rows: WorkRows;
  listener: Pick<Listener, "on">;
  add(work: NewWork): Promise<number>;
  hasOpen(key: string): Promise<boolean>;
  clear(): Promise<void>;
}

export async function postgresStage(): Promise<Stage> {
  const stack = new AsyncDisposableStack();
  const { db, url } = stack.use(await testDatabase());
  return {
    rows: workRows(db),
    listener: stack.use(createListener(systemClock, url, createLog("silent"))),
    add: (work) => enqueue(db, work),
    hasOpen: (key) => hasOpenWork(db, key),
    async clear() {
      await db.deleteFrom("work_item").execute();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export async function memoryStage(): Promise<Stage> {
  const work = new MemoryQueue();
  const callbacks = new Map<string, Set<(payload: string) => void>>();
  const transact = async <T>(change: (tx: QueueTransaction) => T): Promise<T> => {
    const told: [string, string][] = [];
    const notify = (topic: string, about = "") => void told.push([topic, about]);
    const result = change({ tables: { work }, now: systemClock.now(), notify });
    for (const [topic, about] of told) for (const each of callbacks.get(topic) ?? []) each(about);
    return result;
  };
  return {
    rows: memoryWorkRows(transact),
    listener: {
      on(topic, callback) {
        const own = callbacks.get(topic) ?? new Set();
        callbacks.set(topic, own.add(callback));
        return { [Symbol.dispose]: () => void own.delete(callback) };
      },
    },
    add: (item) => transact((tx) => work.add(tx, item)),
    hasOpen: (key) => transact(() => work.hasOpen(key)),
    clear: () => transact(() => work.items.clear()),
    [Symbol.asyncDispose]: async () => {},
  };
}
