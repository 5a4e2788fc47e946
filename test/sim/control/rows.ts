import { create } from "@bufbuild/protobuf";
import type { ClusterViews } from "@svc/control/fleet/cluster/views";
import type { StreamLoads, StreamRows } from "@svc/control/fleet/daemons/streams";
import { tableOf } from "@svc/control/fleet/database-tables/table";
import { usesOf } from "@svc/control/fleet/database-tables/tables";
import { volumesToRemove } from "@svc/control/fleet/database-volumes/rules";
import { openKeeperPassword, openTenantPassword } from "@svc/control/fleet/databases/secrets";
import type { RecoveryRows } from "@svc/control/fleet/recovery/rows";
import type { NodeIdentityRow } from "@svc/control/fleet/sessions/identity";
import type { TaskRecord } from "@svc/control/fleet/sessions/outbox";
import type { SessionRows } from "@svc/control/fleet/sessions/rows";
import { type BackupTaskSpec, backup } from "@svc/control/fleet/tasks/kinds/backup";
import { type DatabaseTaskSpec, database } from "@svc/control/fleet/tasks/kinds/database";
import { type KeeperTaskSpec, keeper } from "@svc/control/fleet/tasks/kinds/keeper";
import type { OpenAttempt } from "@svc/control/fleet/tasks/owners/owner";
import { branchesOfNode, volumesOfNode } from "@svc/control/tenants/databases/testing/memory/loads";
import { openStatuses } from "@svc/proto";
import { type Placement, PlacementSchema, RunOfferSchema } from "@svc/proto/node";
import type { Process } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import { hashText } from "../kernel/random.ts";
import { addressOf, machineIdOf } from "../machines/addresses.ts";
import { type NodeRow, type Notify, releaseAttemptId, type Tables, type TaskRow } from "../stores/postgres.ts";
import { findJobCommand, openJobAttempts } from "../world/jobs.ts";
import { virtualSecrets } from "./database-admin.ts";

/** Where the cluster's registry is. */
export const registryHost = "registry.test";

/** A transaction for the product's own code. */
export type Ask = <T>(work: (tables: Tables, notify: Notify) => T) => Promise<T>;

const identityOf = ({ id, role, incarnation, lifecycle, quarantinedAt }: NodeRow): NodeIdentityRow => ({
  ...{ id, name: id, role, incarnation, lifecycle, quarantined_at: quarantinedAt },
});

/** What of an edge's row says whether visitors are to come to it. */
export const placeRow = ({ drain, drainGeneration, schedulable, entering }: NodeRow) => ({
  ...{ drain, drain_generation: drainGeneration, schedulable, entering },
});

/** What streams ask of Postgres, of the tables of this world: what `nodeRows`, `edgeRows` and `rollRows` are in the real one. */
export function virtualRows(ask: Ask): StreamRows {
  const own: SessionRows = {
    findIdentity: (id) =>
      ask((tables) => {
        const row = tables.nodes.get(id);
        return row === undefined ? null : identityOf(row);
      }),
  };
  return {
    nodes: {
      ...own,
      admitFacts: ({ nodeId, now }) =>
        ask((tables) => {
          const row = tables.nodes.get(nodeId);
          if (row !== undefined) row.seenAt = now;
          return { changed: null };
        }),
      setDockerfileProblem: async () => {},
      quarantine: (nodeId, now) =>
        ask((tables, notify) => {
          const row = tables.nodes.get(nodeId);
          if (row === undefined || row.quarantinedAt !== null) return false;
          row.quarantinedAt = now;
          for (const topic of ["node", "task", "route"] as const) notify(topic);
          return true;
        }),
      setConditions: (nodeId, { diskFull }) =>
        ask((tables, notify) => {
          const row = tables.nodes.get(nodeId);
          if (row === undefined || row.diskFull === diskFull) return false;
          row.diskFull = diskFull;
          notify("task");
          return true;
        }),
      findTaskRecords: (nodeId, placementIds) =>
        ask((tables) => new Map(placementIds.map((id) => [id, recordOf(tables.tasks.get(id), nodeId)]))),
    },
    edges: {
      ...own,
      saveHello: (edgeId, { now }) =>
        ask((tables) => {
          const row = tables.nodes.get(edgeId);
          if (row !== undefined) row.seenAt = now;
          return null;
        }),
      findPlace: (edgeId) =>
        ask((tables) => {
          const row = tables.nodes.get(edgeId);
          return row && placeRow(row);
        }),
      enterRotation: (edgeId) =>
        ask((tables) => {
          const row = tables.nodes.get(edgeId);
          if (row?.entering !== true) return false;
          row.entering = false;
          return true;
        }),
      applyTraffic: async () => false,
      applyAnalytics: async () => {},
    },
    roll: {
      ...own,
      findIdentities: (ids) => ask((tables) => ids.flatMap((id) => tables.nodes.get(id) ?? []).map(identityOf)),
      hear: (heard, now) =>
        ask((tables) => {
          const rows = heard.flatMap(({ id, incarnation }) => {
            const row = tables.nodes.get(id);
            const maySpeak =
              row?.incarnation === incarnation && row.lifecycle === "active" && row.quarantinedAt === null;
            return maySpeak ? [row] : [];
          });
          for (const row of rows) if (row.seenAt === null || row.seenAt < now) row.seenAt = now;
          return new Set(rows.map(({ id }) => id));
        }),
    },
  };
}

/** As `control/src/fleet/agents/orphans.ts` has it. */
function recordOf(task: TaskRow | undefined, nodeId: string): TaskRecord {
  if (task === undefined) return "unknown";
  const isElsewhere = task.nodeId !== null && task.nodeId !== nodeId;
  return task.desired === "removed" || task.reapedAt !== null || isElsewhere ? "gone" : "wanted";
}

const open = new Set<string>(openStatuses);

/** What a recovery asks of Postgres: what `recoveryRows` is in the real one. */
export const virtualRecoveryRows = (ask: Ask): RecoveryRows => ({
  tasks: (ids) =>
    ask((tables) => {
      const over = ids.flatMap((id) => tables.tasks.get(id) ?? []).filter(({ reapedAt }) => reapedAt !== null);
      return [...tables.open.values(), ...over].map(({ reapedAt, ...task }) => ({
        ...task,
        reaped: reapedAt !== null,
      }));
    }),
  openAttempts: () =>
    ask((tables) => [
      ...openJobAttempts(tables),
      ...[...tables.deployments.values()].flatMap((deployment): OpenAttempt[] => {
        const { id, projectId, status, releaseStatus, releaseAttempt, releaseNodeId: nodeId } = deployment;
        const isOpen = open.has(status) && (releaseStatus === "pending" || releaseStatus === "running");
        if (!isOpen || releaseAttempt === 0 || nodeId === null) return [];
        const attemptId = releaseAttemptId(id, releaseAttempt);
        return [{ attemptId, kind: "release", nodeId, ownerKind: "deployment", ownerId: id, projectId }];
      }),
    ]),
  epoch: () => ask(({ clusterEpoch }) => clusterEpoch),
  begin: (epoch, now) =>
    ask((tables) => {
      tables.clusterEpoch = epoch;
      tables.leaderFence = 0n;
      const unused = [...tables.tokens.values()].filter(
        ({ usedAt, revokedAt }) => usedAt === null && revokedAt === null,
      );
      for (const token of unused) token.revokedAt = now;
      return unused.length;
    }),
  admitted: () =>
    ask((tables) =>
      [...tables.nodes.values()]
        .filter(({ lifecycle }) => lifecycle === "active")
        .map(({ id, role, seenAt }) => ({ id, name: id, role, lastSeenAt: seenAt })),
    ),
});

/** So long that a whole assignment comes in parts. */
const padding = "x".repeat(64_000);

const imageOf = (projectId: string, deploymentId: string) => ({
  reference: `${registryHost}/${projectId}@sha256:${hashText(deploymentId).toString(16).padStart(64, "0")}`,
});

const placeOf = (nodeId: string) => ({ nodeId: machineIdOf(nodeId), address: addressOf(nodeId) });

/** What a node is told of a database's server. */
function serverPlacement({ branches }: Tables, task: TaskRow, spec: DatabaseTaskSpec): Placement | null {
  const branch = branches.rows.get(task.ownerId) ?? branches.dropped.get(task.ownerId);
  if (branch === undefined) return null;
  const { projectId, ownerKind, ownerId, channel, specHash } = task;
  const owner = { branch, adminVerifier: () => "verifier of the administrator" };
  return create(PlacementSchema, {
    ...{ projectId, ownerKind, ownerId, channel, specHash },
    spec: database.forNode(spec, { owner } as never),
  });
}

/** What a node is told of a backup that it is to make. */
function backupPlacement({ backups, branches }: Tables, task: TaskRow, spec: BackupTaskSpec): Placement | null {
  const branch = branches.rows.get(backups.rows.get(task.ownerId)?.database_id ?? "");
  if (branch === undefined) return null;
  const { projectId, ownerKind, ownerId, channel, specHash } = task;
  const owner = { password: () => openTenantPassword(virtualSecrets, branch) };
  return create(PlacementSchema, {
    ...{ projectId, ownerKind, ownerId, channel, specHash },
    spec: backup.forNode(spec, { owner } as never),
  });
}

/** What a node is told of a copy that it is to keep. */
function keeperPlacement({ branches }: Tables, task: TaskRow, spec: KeeperTaskSpec): Placement | null {
  const branch = branches.rows.get(spec.databaseId);
  if (branch === undefined) return null;
  const { projectId, ownerKind, ownerId, channel, specHash } = task;
  const owner = { id: ownerId, password: () => openKeeperPassword(virtualSecrets, branch) };
  return create(PlacementSchema, {
    ...{ projectId, ownerKind, ownerId, channel, specHash },
    spec: keeper.forNode(spec, { owner } as never),
  });
}

/** What streams tell daemons. */
export const virtualLoads = (ask: Ask, { views, now }: { views: ClusterViews; now(): Date }): StreamLoads => ({
  placement: (placementId) =>
    ask((tables) => {
      const task = tables.tasks.get(placementId);
      if (task === undefined) return null;
      if (task.server !== null) return serverPlacement(tables, task, task.server);
      if (task.backup !== null) return backupPlacement(tables, task, task.backup);
      if (task.keeper !== null) return keeperPlacement(tables, task, task.keeper);
      const { projectId, ownerId: deploymentId, specHash } = task;
      return create(PlacementSchema, {
        ...{ projectId, deploymentId, ownerKind: "deployment", ownerId: deploymentId, channel: "production" },
        specHash,
        spec: {
          case: "serve",
          value: {
            image: imageOf(projectId, deploymentId),
            env: { PADDING: padding },
            ...{ port: 80, stopGraceSeconds: 10, health: { path: "/", timeoutSeconds: 30 } },
          },
        },
      });
    }),
  run: (attemptId) =>
    ask((tables) => {
      const job = findJobCommand(tables, attemptId);
      if (job !== null) {
        const { projectId, deploymentId } = job;
        return create(RunOfferSchema, {
          ...{ attemptId, channel: "production", ...job },
          image: imageOf(projectId, deploymentId),
        });
      }
      const deployment = tables.deployments.get(attemptId.split(".")[0] ?? "");
      if (deployment === undefined) return null;
      const { id: deploymentId, projectId } = deployment;
      return create(RunOfferSchema, {
        ...{ attemptId, deploymentId, projectId, channel: "production", timeoutSeconds: 30 },
        ...{ ownerKind: "deployment", ownerId: deploymentId, kind: "release", command: "migrate" },
        image: imageOf(projectId, deploymentId),
      });
    }),
  databaseTable: (nodeId) =>
    ask((tables) => ({
      entries: tableOf(branchesOfNode({ tables }, usesOf(views, nodeId), placeOf)),
      goneIds: [...tables.nodes.values()].flatMap(({ id, lifecycle }) =>
        lifecycle === "active" ? [] : [machineIdOf(id)],
      ),
    })),
  volumesToRemove: (nodeId) => ask((tables) => volumesToRemove(volumesOfNode({ tables, now: now() }, nodeId))),
  gates: async () => [],
  salts: null,
});

/** Postgres' notifications as the product's code hears them. */
export function virtualListener(process: Process) {
  const callbacks = new Map<string, Set<(payload: string) => void>>();
  return {
    on(topic: string, callback: (payload: string) => void): Disposable {
      const own = callbacks.get(topic) ?? new Set();
      callbacks.set(topic, own.add(callback));
      return { [Symbol.dispose]: () => void own.delete(callback) };
    },
    /** Called when somebody notified of a topic, for that is what is told of it. */
    hear: (topic: string, payload = "") =>
      enter(process, () => {
        for (const callback of callbacks.get(topic) ?? []) callback(payload);
      }),
  };
}
