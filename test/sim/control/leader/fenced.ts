import { backOffMs } from "@svc/runtime/retry";
import { pause, type Work, wait } from "../../kernel/kernel.ts";
import type { Leadership } from "../../stores/etcd-lease.ts";
import { DatabaseError, type Notify, type Tables } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";

/** The replica that leads, and the leadership under which it decides: what most rounds of a leader begin with. */
export interface Leader {
  replica: Replica;
  leadership: Leadership;
}

/** A later leader has written to Postgres. */
export class LeaderOutdated extends Error {
  override readonly name = "LeaderOutdated";
}

const takeOverBackOff = { firstMs: 100, maxMs: 5_000 };

/** The first thing that a leader does: from then on nothing that an earlier one decided is committed. */
export function* takeOver({ replica, leadership: { epoch } }: Leader): Work {
  const { world, process } = replica;
  for (let failures = 1; ; failures += 1) {
    try {
      const isNewest = yield* replica.transact((tables) => {
        if (tables.leaderFence > epoch) return false;
        world.checks.onFence(tables.leaderFence, epoch);
        tables.leaderFence = epoch;
        return true;
      });
      if (isNewest) return;
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
    }
    yield* wait(pause(backOffMs(failures, takeOverBackOff, process.random.next())));
  }
}

/**
 * A transaction that a later leader's makes impossible: mirrors `control/src/fleet/cluster/fenced.ts`.
 * @throws LeaderOutdated
 */
export function* inFencedTransaction<T>(
  { replica, leadership: { epoch } }: Leader,
  work: (tables: Tables, notify: Notify) => T,
): Work<T> {
  const done = yield* replica.transact((tables, notify) =>
    tables.leaderFence === epoch ? { result: work(tables, notify) } : null,
  );
  if (done === null) throw new LeaderOutdated("another leader is at work");
  return done.result;
}
