import type { Log } from "@svc/agent/log";
import { LeaderOutdated } from "@svc/control/fleet/cluster/fenced";
import type { Fleet } from "@svc/control/fleet/cluster/fleet";
import type { Transact } from "@svc/control/fleet/testing/tables";
import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Etcd, Leadership } from "@svc/control/stores/etcd/index";
import type { Clock } from "@svc/runtime/clock";
import type { Work } from "../../kernel/kernel.ts";
import { createAnswer, enter, virtualClock } from "../../kernel/ports.ts";
import { virtualLog } from "../../machines/log.ts";
import type { Leadership as VirtualLeadership } from "../../stores/etcd-lease.ts";
import { DatabaseError, type Tables } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { transactOf } from "../transact.ts";

/** What the product's loops of a leader are handed, for one leadership of a replica. */
export interface LeaderPorts {
  clock: Clock;
  fleet: Fleet;
  etcd: Etcd;
  leadership: Leadership;
  transact: Transact<Tables>;
  log: Log;
  /** Hears of every round that failed. What the next round may not meet any more is nothing to worry about. */
  onError(error: unknown): void;
}

export function leaderPorts(replica: Replica, leadership: VirtualLeadership): LeaderPorts {
  const { process, fleet, etcd } = replica;
  return {
    ...{ clock: virtualClock(process), fleet, etcd, log: virtualLog(process) },
    leadership: leadershipOf(replica, leadership),
    transact: transactOf(replica),
    onError: (error) => void (!isPassing(error) && process.onUncaught(error)),
  };
}

const isPassing = (error: unknown): boolean =>
  [EtcdError, UnknownOutcome, DatabaseError, LeaderOutdated, LeadershipLost].some((kind) => error instanceof kind);

/** Of the copy of the campaign. What was asked for goes on when the leadership ends, as in the real one. */
function leadershipOf({ process }: Replica, leadership: VirtualLeadership): Leadership {
  const { scope } = process;
  const ending = new AbortController();
  leadership.scope.onEnd(() => enter(process, () => ending.abort(new LeadershipLost("the leadership ended"))));
  const promised = <T>(work: Work<T>): Promise<T> => {
    const answer = createAnswer<T>(scope);
    scope.spawn(
      work,
      (error) => answer.reject(error, 0, "leader's txn"),
      (value) => answer.resolve(value, 0, "leader's txn"),
    );
    return answer.promise;
  };
  return {
    epoch: leadership.epoch,
    signal: ending.signal,
    isHeld: () => leadership.isHeld,
    txn: (ops, guards = []) => promised(leadership.txn(ops, guards)),
  };
}
