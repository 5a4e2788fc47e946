import type { Log } from "@svc/agent/log";
import { LeaderOutdated } from "@svc/control/fleet/cluster/fenced";
import { takeOver } from "@svc/control/fleet/cluster/take-over";
import { leadFleet } from "@svc/control/fleet/leading";
import { raiseMemoryFence } from "@svc/control/fleet/testing/fenced";
import { memoryFleetRows } from "@svc/control/fleet/testing/fleet-rows";
import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Leadership } from "@svc/control/stores/etcd/index";
import { leadNightlyBackups } from "@svc/control/tenants/databases/backups/schedule/nightly";
import { memoryNightRows } from "@svc/control/tenants/databases/testing/memory/backup-rows";
import { memoryCopyRound } from "@svc/control/tenants/databases/testing/memory/copy-rows";
import { leadJobs } from "@svc/control/tenants/jobs/leading";
import { memoryJobRows } from "@svc/control/tenants/jobs/testing/memory/job-rows";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import { virtualClock, virtualRandom } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { DatabaseError } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";
import { transactOf } from "./transact.ts";

/** As in `control/src/leader.ts`. */
const copiesMs = 5_000;

/** Sites have no password here. */
const gateSecret = Buffer.alloc(32);

/** What a leader does for the fleet, scheduled jobs and backups, as the product does it. */
export async function lead(replica: Replica, leadership: Leadership): Promise<void> {
  const { world, process, fleet, etcd, listener, id: leaderId, clusterEpoch } = replica;
  const { epoch } = leadership;
  const leadingSince = fleet.now();
  const transact = transactOf(replica);
  const clock = virtualClock(process);
  const random = virtualRandom(process);
  const log = watchedLog(replica);
  const onError = (error: unknown) => void (!isPassing(error) && process.onUncaught(error));
  replica.isLeading = leadership.isHeld;
  const raise = () => raiseMemoryFence(transact, epoch);
  if (!(await takeOver({ clock, random, raise, log }, leadership))) return;
  const heardBy = () => ({ onError });
  await Promise.all([
    leadFleet({
      ...{ clock, rows: memoryFleetRows(transact), etcd, fleet, leadership, leaderId, leadingSince, listener },
      ...{ gateSecret, clusterEpoch, log, heardBy },
    }),
    ...(world.plan.hasDatabases
      ? [
          leadNightlyBackups({ clock, rows: memoryNightRows(transact), random, leadership, log, heardBy }),
          runLoop({ clock, signal: leadership.signal, wake: createWake(clock), periodMs: copiesMs, onError }, () =>
            memoryCopyRound(transact, { isWanted: true }),
          ),
        ]
      : []),
    leadJobs({ clock, rows: memoryJobRows(transact), etcd, fleet, leadership, listener, log, heardBy }),
  ]);
}

/** What the next round may not meet any more. */
const isPassing = (error: unknown): boolean =>
  [EtcdError, UnknownOutcome, DatabaseError, LeaderOutdated, LeadershipLost].some((kind) => error instanceof kind);

/** What a loop gets over by itself and tells its log may be a failure of the program all the same. */
function watchedLog({ process }: Replica): Log {
  const log = virtualLog(process);
  const warn = (fields: { err?: unknown }, text: string) => {
    if (fields.err !== undefined && !isPassing(fields.err)) process.onUncaught(fields.err);
    log.warn(fields, text);
  };
  return { ...log, warn } as Log;
}
