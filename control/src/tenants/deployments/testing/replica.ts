import { randomUUID } from "node:crypto";
import type { Registry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import type { KyselyPlugin } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { openFleet } from "../../../fleet/cluster/testing.ts";
import { applyLimitsWorker } from "../../../fleet/limits/worker.ts";
import { applyLimitsKind } from "../../../identity/plans/apply-limits.ts";
import { startLeader } from "../../../leader.ts";
import { createLog } from "../../../log.ts";
import type { Config } from "../../../settings/settings.ts";
import { createListener } from "../../../stores/db/listen.ts";
import { createDb } from "../../../stores/db/pool.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { testClient } from "../../../stores/etcd/testing.ts";
import { workRows } from "../../../stores/work/rows.ts";
import { startWorkers } from "../../../stores/work/worker.ts";
import { alertWorkers } from "../../alerts/worker.ts";
import { renameWorker } from "../../rename/worker.ts";
import { suspensionWorker } from "../../suspension/worker.ts";
import { lifecycleRows } from "../lifecycle/rows.ts";
import { lifecycleWorker } from "../lifecycle/worker.ts";
import { deploysOnPostgres } from "../postgres.ts";
import { removeWorker } from "../remove/worker.ts";
import { retireRows } from "../retire/rows.ts";
import { retireWorker } from "../retire/worker.ts";
import { deployWorker } from "../worker.ts";

/** The part of a control server that moves deployments: workers, scheduler and publisher, on real stores. */
export interface Replica extends AsyncDisposable {
  /** From the given number of store calls on nothing that it does has an effect, as if it were killed there. */
  crashAfter(calls: number): void;
  crashed: Promise<void>;
  /** The cluster as it sees it; others may have seen more, or less. */
  fleet: Fleet;
}

class Killed extends Error {
  override readonly name = "Killed";
}

export async function startReplica(options: {
  databaseUrl: string;
  etcdEndpoint: string;
  content: Config["content"];
  registry: Pick<Registry, "getManifest">;
  /** How long edges that do not answer keep the containers of a suspended project running. */
  edgesWaitMs?: number;
  /** The system's clock unless given. */
  now?: () => Date;
}): Promise<Replica> {
  const log = createLog(process.env["SVC_TEST_LOG_LEVEL"] ?? "silent");
  const serverId = randomUUID();
  const now = options.now ?? (() => new Date());
  // Whatever sets the dates ahead lets as much time pass.
  const clock = { ...systemClock, now, bootMs: () => now().getTime() };
  await using stack = new AsyncDisposableStack();
  const crash = Promise.withResolvers<void>();
  let callsLeft = Number.POSITIVE_INFINITY;
  /** A crash strikes before or after a call: what the call did is done either way. */
  const strike = () => {
    callsLeft -= 1;
    if (callsLeft > 0) return;
    crash.resolve();
    throw new Killed("this replica was killed");
  };
  const faults: KyselyPlugin = {
    transformQuery({ node }) {
      strike();
      return node;
    },
    async transformResult({ result }) {
      strike();
      return result;
    },
  };
  const pool = createDb({ url: options.databaseUrl, maxConnections: 10 });
  stack.defer(() => pool.destroy());
  const db = pool.withPlugin(faults);
  const listener = stack.use(createListener(systemClock, options.databaseUrl, log));
  const client = stack.use(testClient(options.etcdEndpoint));
  const etcd: Etcd = {
    ...client,
    async txn(txn) {
      strike();
      const result = await client.txn(txn);
      strike();
      return result;
    },
  };
  const fleet = stack.use(await openFleet(client, { clock, log }));
  const registry = options.registry as Registry;
  const work = { clock, db, etcd, fleet, registry, log };
  stack.use(
    startWorkers({
      clock: systemClock,
      rows: workRows(db),
      listener,
      log,
      owner: serverId,
      leaseMs: 700,
      groups: [
        {
          concurrency: 8,
          handlers: {
            deploy: deployWorker({
              ...work,
              ...deploysOnPostgres({
                ...work,
                resolveImage: async () => ({ code: "OCI_PULL_FAILED", message: "" }),
              }),
            }),
          },
        },
        {
          concurrency: 8,
          handlers: {
            retire: retireWorker({ ...work, rows: retireRows(db), drainMs: 30 }),
            remove: removeWorker({ ...work, drainMs: 30 }),
            lifecycle: lifecycleWorker({ ...work, rows: lifecycleRows(db) }),
            ...alertWorkers({ db, mailer: null, apiUrl: "http://127.0.0.1" }),
            rename: renameWorker({ ...work, content: options.content }),
            suspension: suspensionWorker({ ...work, drainMs: 30, edgesWaitMs: options.edgesWaitMs ?? 30_000 }),
          },
        },
        { concurrency: 2, handlers: { [applyLimitsKind]: applyLimitsWorker(work) } },
      ],
    }),
  );
  stack.use(
    startLeader({
      db,
      etcd,
      fleet,
      listener,
      log,
      serverId,
      gateSecret: Buffer.alloc(32),
      clock,
      random: systemRandom,
      ttlMs: 1_000,
      drainMs: 30,
    }),
  );
  const owned = stack.move();
  return {
    crashAfter(calls) {
      callsLeft = calls;
    },
    crashed: crash.promise,
    fleet,
    async [Symbol.asyncDispose]() {
      await owned[Symbol.asyncDispose]();
    },
  };
}
