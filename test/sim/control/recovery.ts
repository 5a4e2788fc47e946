import { keyParts, keys, type PlacementValue, prefix, type RunValue } from "@svc/control/fleet/cluster/keys";
import { type KnownTask, type Recovery, type Restored, recoverySteps } from "@svc/control/fleet/recovery/steps";
import type { OpenAttempt } from "@svc/control/fleet/tasks/owners/owner";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { limitsOf } from "@svc/control/tenants/deployments/testing/memory/tables";
import { openStatuses } from "@svc/proto";
import { type Process, pause, type Work, wait } from "../kernel/kernel.ts";
import type { Op } from "../stores/etcd.ts";
import { EtcdClient } from "../stores/etcd-client.ts";
import { EtcdPath } from "../stores/etcd-path.ts";
import { DatabaseError, releaseAttemptId, type Tables } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";

const lookEveryMs = 500;
/** Few, so that it is cut short between two of them often; the real one writes as much at once as etcd takes. */
const opsPerTxn = 8;

/** A control server was started meanwhile. */
class RecoveryRefused extends Error {
  override readonly name = "RecoveryRefused";
}

const isPassing = (error: unknown): boolean =>
  error instanceof EtcdError ||
  error instanceof UnknownOutcome ||
  error instanceof DatabaseError ||
  error instanceof RecoveryRefused;

/** `svc-control after-restore`, which its operator repeats until it works: mirrors `control/src/fleet/recovery/command.ts`. */
export function* recoverCluster(world: World, process: Process): Work {
  process.onUncaught = (error) => world.checks.onUncaught(process.id, error);
  const client = new EtcdClient(new EtcdPath(world.kernel, world.etcd, process, world.trouble.etcd), world.cores);
  for (;;) {
    try {
      return yield* recoverOnce(world, process, client);
    } catch (error) {
      if (!isPassing(error)) throw error;
      world.kernel.note(() => `operator: the recovery failed: ${String(error)}`);
      yield* wait(pause(1_000));
    }
  }
}

function* recoverOnce(world: World, process: Process, client: EtcdClient): Work {
  const transact = <T>(work: (tables: Tables) => T) =>
    wait(
      world.postgres.transact(
        process,
        () => 0,
        (tables) => work(tables),
      ),
    );
  yield* untilNobodyServes(client);
  const restored = yield* readRestored(world, client);
  const read = yield* transact((tables) => ({
    tasks: tasksOf(tables, restored),
    attempts: attemptsOf(tables),
    epoch: tables.clusterEpoch,
  }));
  const recovery = recoverySteps(read.tasks, read.attempts, restored, process.now());
  const known = yield* client.get(keys.clusterEpoch);
  const next = Math.max(read.epoch, known === null ? 0 : world.values.of<number>(known.value)) + 1;
  yield* writeAll(client, [
    ...opsOf(world, recovery),
    { put: { key: keys.clusterEpoch, value: world.values.textOf(next) } },
  ]);
  yield* transact((tables) => {
    tables.clusterEpoch = next;
    // The next leader's number is a revision of this etcd, however small.
    tables.leaderFence = 0n;
    for (const token of tables.tokens.values())
      if (token.usedAt === null) token.revokedAt ??= new Date(world.postgres.nowMs());
  });
  const { replaced, advanced, forgotten, unsettled, unknown } = recovery;
  world.kernel.note(
    () =>
      `operator: recovered under epoch ${next}: ${replaced} again, ${advanced} on, ${forgotten} forgotten, ${unsettled.get("release") ?? 0} runs, ${unknown.length} unknown`,
  );
}

/** Leases of what died go on for some seconds. */
function* untilNobodyServes(client: EtcdClient): Work {
  for (;;) {
    const { entries } = yield* client.range(prefix.servers);
    if (entries.length === 0 && (yield* client.get(keys.leader)) === null) return;
    yield* wait(pause(lookEveryMs));
  }
}

function* readRestored({ values }: World, client: EtcdClient): Work<Restored> {
  const placements = (yield* client.range(prefix.placements)).entries;
  const runs = (yield* client.range(prefix.runs)).entries;
  const routes = (yield* client.range(prefix.routes)).entries;
  const edges = (yield* client.range(prefix.edges)).entries;
  const observations = (yield* client.range(prefix.observations)).entries;
  const applied = edges.filter(({ key }) => key.endsWith("/applied"));
  return {
    placements: placements.map(({ key, value }) => ({
      nodeId: keyParts(key, prefix.placements)[0] ?? "",
      placement: values.of<PlacementValue>(value),
    })),
    runs: runs.map(({ key, value }) => ({
      nodeId: keyParts(key, prefix.runs)[0] ?? "",
      run: values.of<RunValue>(value),
    })),
    outdated: [...routes, ...applied, ...observations].map(({ key }) => key),
  };
}

/** Tasks that are not over, and those that etcd names. */
function tasksOf(tables: Tables, { placements }: Restored): Map<string, KnownTask> {
  const named = placements.flatMap(({ placement }) => tables.tasks.get(placement.placementId) ?? []);
  return new Map(
    [...tables.open.values(), ...named].map((task) => [
      task.id,
      {
        ...{
          id: task.id,
          nodeId: task.nodeId,
          reaped: task.reapedAt !== null,
          epoch: task.epoch,
          desired: task.desired,
        },
        ...{ kind: "serve", specHash: task.specHash, channel: "production" },
        ...{ projectId: task.projectId, ownerKind: "deployment", ownerId: task.ownerId },
        ...limitsOf(task.reservedMemoryMb),
        drainSeconds: task.drainSeconds,
      },
    ]),
  );
}

const open = new Set<string>(openStatuses);

const attemptsOf = (tables: Tables): OpenAttempt[] =>
  [...tables.deployments.values()].flatMap(({ id, projectId, status, releaseStatus, releaseAttempt, releaseNodeId }) =>
    open.has(status) &&
    (releaseStatus === "pending" || releaseStatus === "running") &&
    releaseAttempt > 0 &&
    releaseNodeId !== null
      ? [
          {
            ...{ attemptId: releaseAttemptId(id, releaseAttempt), kind: "release", nodeId: releaseNodeId },
            ...{ ownerKind: "deployment", ownerId: id, projectId },
          },
        ]
      : [],
  );

const opsOf = ({ values }: World, { puts, deletes }: Recovery): Op[] => [
  ...puts.map(({ key, value }) => ({ put: { key, value: values.textOf(value) } })),
  ...deletes.map((key) => ({ delete: { key } })),
];

/** In as many transactions as it takes, each only while nobody leads. */
function* writeAll(client: EtcdClient, ops: readonly Op[]): Work {
  for (let at = 0; at < ops.length; at += opsPerTxn) {
    const { succeeded } = yield* wait(
      client.txn({
        guards: [{ key: keys.leader, compare: "absent" }],
        ops: ops.slice(at, at + opsPerTxn),
        writer: { by: "operator" },
      }),
    );
    if (!succeeded) throw new RecoveryRefused("a control server was started meanwhile");
  }
}
