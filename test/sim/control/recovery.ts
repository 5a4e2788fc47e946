import { RecoveryRefused, recoverCluster } from "@svc/control/fleet/recovery/command";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { type Process, pause, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { promiseOf, virtualClock } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { createVirtualEtcd, EtcdPath } from "../stores/etcd-path.ts";
import { DatabaseError } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";
import { type Ask, virtualRecoveryRows } from "./rows.ts";

/** Leases of what died go on for some seconds, and a slow etcd for longer. */
const waitMs = 60_000;
/** Few, so that it is cut short between two of them often. */
const opsPerTxn = 8;

const isPassing = (error: unknown): boolean =>
  error instanceof EtcdError ||
  error instanceof UnknownOutcome ||
  error instanceof DatabaseError ||
  error instanceof RecoveryRefused;

/** What the operator of a cluster does after its etcd was restored: `svc-control after-restore`, until it works. */
export function* recoverOften({ kernel, etcd: store, trouble, postgres, checks }: World, process: Process): Work {
  process.onUncaught = (error) => checks.onUncaught(process.id, error);
  const path = new EtcdPath(kernel, store, process, trouble.etcd);
  const etcd = createVirtualEtcd(path, virtualLog(process), () => ({ by: "operator" }));
  const ask: Ask = (work) =>
    promiseOf(
      process.scope,
      postgres.transact(process, () => 0, work),
    );
  const print = (line: string) => kernel.note(() => `operator: ${line}`);
  const options = { rows: virtualRecoveryRows(ask), etcd, clock: virtualClock(process), print, waitMs, opsPerTxn };
  for (;;) {
    try {
      yield* wait(waitFor(() => recoverCluster(options)));
      return;
    } catch (error) {
      if (!isPassing(error)) throw error;
      print(`the recovery failed: ${String(error)}`);
      yield* wait(pause(1_000));
    }
  }
}
