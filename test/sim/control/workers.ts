import { copiesKind } from "@svc/control/fleet/databases/checks";
import { databaseKind } from "@svc/control/identity/plans/reconcile-databases";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { memoryWorkRows } from "@svc/control/stores/work/testing/memory";
import { startWorkers, type WorkHandler } from "@svc/control/stores/work/worker";
import { backupWork } from "@svc/control/tenants/databases/backups/store";
import { backupWorker } from "@svc/control/tenants/databases/backups/worker";
import { changeKind } from "@svc/control/tenants/databases/changes/store";
import { changeWorker } from "@svc/control/tenants/databases/changes/worker";
import { copiesWorker } from "@svc/control/tenants/databases/copies/worker";
import { memoryBackupRows } from "@svc/control/tenants/databases/testing/memory/backup-rows";
import { memoryBranchRows } from "@svc/control/tenants/databases/testing/memory/branch-rows";
import { memoryChangeRows } from "@svc/control/tenants/databases/testing/memory/change-rows";
import { memoryCopyRows } from "@svc/control/tenants/databases/testing/memory/copy-rows";
import { databaseWorker } from "@svc/control/tenants/databases/worker";
import { lifecycleWorker } from "@svc/control/tenants/deployments/lifecycle/worker";
import { retireWorker } from "@svc/control/tenants/deployments/retire/worker";
import { memoryDeployRows } from "@svc/control/tenants/deployments/testing/memory/deploy-rows";
import { memoryLifecycleRows } from "@svc/control/tenants/deployments/testing/memory/lifecycle-rows";
import { memoryRetireRows } from "@svc/control/tenants/deployments/testing/memory/retire-rows";
import { deployWorker } from "@svc/control/tenants/deployments/worker";
import { RegistryError } from "@svc/registry";
import { virtualClock } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { DatabaseError } from "../stores/postgres.ts";
import { virtualAdmin, virtualLines, virtualSecrets } from "./database-admin.ts";
import type { Replica } from "./replica.ts";
import { transactOf } from "./transact.ts";

/** As in `control/src/start.ts`. */
const leaseMs = 10_000;
/** So few that work waits for room. */
const deploysAtOnce = 6;
const otherWorkAtOnce = 4;
const databasesAtOnce = 3;
const changesAtOnce = 2;
const copiesAtOnce = 2;
const drainMs = 5_000;

/** The work of one life of a replica. Nothing is built here. */
export function startWork(replica: Replica): void {
  const { process, listener, isCutOff, fleet, etcd, scope, world } = replica;
  const transact = transactOf(replica);
  const ports = { clock: virtualClock(process), log: virtualLog(process), fleet, etcd };
  const servers = { secrets: virtualSecrets, openLine: virtualLines(replica), admin: virtualAdmin(replica) };
  const handlers = {
    deploy: deployWorker({ ...ports, rows: memoryDeployRows(transact), builds: () => noBuilds }),
    retire: retireWorker({ ...ports, rows: memoryRetireRows(transact), drainMs }),
    lifecycle: lifecycleWorker({ ...ports, rows: memoryLifecycleRows(transact) }),
    backup: backupWorker({ ...ports, rows: memoryBackupRows(transact), registry: world.artifacts.client(scope) }),
    database: databaseWorker({ ...ports, ...servers, rows: memoryBranchRows(transact) }),
    change: changeWorker({ ...ports, ...servers, rows: memoryChangeRows(transact) }),
    copies: copiesWorker({ ...ports, ...servers, rows: memoryCopyRows(transact), isWanted: true }),
  };
  const watched = (handler: WorkHandler) => watchedBy(process.onUncaught, handler);
  startWorkers({
    ...{ ...ports, listener, isCutOff, rows: memoryWorkRows(transact), owner: replica.id, leaseMs },
    groups: [
      { concurrency: deploysAtOnce, handlers: { deploy: watched(handlers.deploy) } },
      { concurrency: databasesAtOnce, handlers: { [databaseKind]: watched(handlers.database) } },
      { concurrency: changesAtOnce, handlers: { [changeKind]: watched(handlers.change) } },
      { concurrency: copiesAtOnce, handlers: { [copiesKind]: watched(handlers.copies) } },
      {
        concurrency: otherWorkAtOnce,
        handlers: {
          ...{ retire: watched(handlers.retire), lifecycle: watched(handlers.lifecycle) },
          [backupWork]: watched(handlers.backup),
        },
      },
    ],
  });
}

/** Workers try again whatever failed; here that is a fault, unless a store did not answer. */
const watchedBy =
  (onUncaught: (error: unknown) => void, handler: WorkHandler): WorkHandler =>
  (item, signal) =>
    handler(item, signal).catch((error: unknown) => {
      if (!signal.aborted && !isTrouble(error)) onUncaught(error);
      throw error;
    });

const isTrouble = (error: unknown): boolean =>
  [EtcdError, UnknownOutcome, DatabaseError, RegistryError].some((kind) => error instanceof kind);

const noBuild = () => Promise.reject(new Error("nothing is built here"));
const noBuilds = { resolveImage: noBuild, createBuild: noBuild, abandonTask: noBuild, acceptBuild: noBuild };
