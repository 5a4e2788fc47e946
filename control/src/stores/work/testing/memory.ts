import { type ClaimedWork, type NewWork, type WorkOutcome, workTopic } from "../queue.ts";
import type { WorkRows } from "../rows.ts";

/** As the table says. */
const maxAttempts = 20;

/** An item that is not over. */
export interface MemoryWork {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  payload: unknown;
  readonly createdAt: Date;
  attempt: number;
  runAt: Date;
  /** Null: it is queued. */
  lease: { owner: string; until: Date } | null;
}

/** What a piece of work does with the queue, which it has to itself. */
export interface QueueTransaction {
  tables: { work: MemoryQueue };
  /** The database's time. */
  now: Date;
  notify(topic: string, about?: string): void;
}

/** The queue without a Postgres: what is over is gone. */
export class MemoryQueue {
  /** By id, so in the order in which they were added. */
  readonly items = new Map<number, MemoryWork>();
  private nextId = 1;

  /** See `enqueue` of `queue.ts`. */
  add({ now, notify }: Pick<QueueTransaction, "now" | "notify">, { kind, key, payload, runAt = now }: NewWork): number {
    const id = this.nextId++;
    this.items.set(id, { id, kind, key, payload, createdAt: now, runAt, attempt: 0, lease: null });
    notify(workTopic, kind);
    return id;
  }

  /** See `hasOpenWork` there. */
  hasOpen(key: string): boolean {
    return [...this.items.values()].some((item) => item.key === key);
  }

  /** Items that are due, and for each key what has the turn. */
  private due(now: Date): { due: MemoryWork[]; turns: Map<string, MemoryWork> } {
    const turns = new Map<string, MemoryWork>();
    const due: MemoryWork[] = [];
    for (const item of this.items.values()) {
      if (item.lease !== null || !turns.has(item.key)) turns.set(item.key, item);
      if (item.lease === null && item.runAt <= now) due.push(item);
    }
    return { due, turns };
  }

  /** Due items that have the turn, the oldest first. */
  claimable(now: Date): MemoryWork[] {
    const { due, turns } = this.due(now);
    return due
      .filter((item) => turns.get(item.key) === item)
      .sort((a, b) => a.runAt.getTime() - b.runAt.getTime() || a.id - b.id);
  }

  /** Whether or not their keys are idle. */
  dueKinds(now: Date): Set<string> {
    return new Set(this.due(now).due.map(({ kind }) => kind));
  }

  /** The item, while it is that attempt of that owner; undefined once somebody else may have it. */
  held({ id, attempt }: Pick<ClaimedWork, "id" | "attempt">, owner: string): MemoryWork | undefined {
    const item = this.items.get(id);
    return item?.lease?.owner === owner && item.attempt === attempt ? item : undefined;
  }
}

const after = (now: Date, ms: number): Date => new Date(now.getTime() + ms);

/** What workers ask of the queue, answered from memory. `transact` runs one piece of work at one moment. */
export function memoryWorkRows(transact: <T>(work: (tx: QueueTransaction) => T) => Promise<T>): WorkRows {
  return {
    claimAll: ({ kinds, owner, leaseMs, limit }) =>
      transact(({ tables: { work }, now }) =>
        work
          .claimable(now)
          .filter(({ kind }) => kinds.includes(kind))
          .slice(0, limit)
          .map((item) => {
            item.attempt += 1;
            item.lease = { owner, until: after(now, leaseMs) };
            const { id, kind, key, attempt, createdAt } = item;
            const ageMs = now.getTime() - createdAt.getTime();
            return { id, kind, key, payload: structuredClone(item.payload), attempt, maxAttempts, ageMs };
          }),
      ),
    renewAll: (items, owner, leaseMs) =>
      transact(({ tables: { work }, now }) => {
        const kept = items.flatMap((each) => work.held(each, owner) ?? []);
        for (const item of kept) item.lease = { owner, until: after(now, leaseMs) };
        return new Set(kept.map(({ id }) => id));
      }),
    finish: (claimed, owner, outcome) =>
      transact(({ tables: { work }, now, notify }) => {
        const item = work.held(claimed, owner);
        if (item === undefined) return false;
        end(work, item, outcome, now);
        const waiting = [...work.items.values()].filter(({ key, lease }) => key === item.key && lease === null);
        for (const kind of new Set(waiting.map((each) => each.kind))) notify(workTopic, kind);
        return true;
      }),
    reap: () =>
      transact(({ tables: { work }, now }) => {
        const over = [...work.items.values()].filter(({ lease }) => lease !== null && lease.until < now);
        for (const item of over) item.lease = null;
        return over.length;
      }),
    listDueKinds: (kinds) =>
      transact(({ tables: { work }, now }) => {
        const due = work.dueKinds(now);
        return kinds.filter((kind) => due.has(kind));
      }),
  };
}

function end(work: MemoryQueue, item: MemoryWork, outcome: WorkOutcome, now: Date): void {
  if ("state" in outcome) {
    work.items.delete(item.id);
    return;
  }
  item.lease = null;
  item.runAt = after(now, outcome.retryAfterMs);
  if (outcome.refund) item.attempt -= 1;
}
