import { openStatuses } from "@svc/proto";
import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { memorySchedulerRows } from "../../../../fleet/testing/scheduler-rows.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { DeployAttempt, DeployRow, DeployRows } from "../../rows.ts";
import { giveChannelBack, pointChannel, retire, supersedeOthers } from "./channel.ts";
import { fillSlots } from "./make.ts";
import {
  type DeploymentRow,
  type DeploymentTables,
  healthTimeoutSeconds,
  moveDeployment,
  releaseAttemptId,
  type Tx,
} from "./tables.ts";

/** How long a release command may take. */
const releaseTimeoutSeconds = 30;
const artifactReady = { from: "building", to: "deploying", phase: "artifact-ready" } as const;
const open = new Set<string>(openStatuses);

/** What deploys ask, answered from memory. Each has its image from the beginning. */
export const memoryDeployRows = (transact: Transact<DeploymentTables>): DeployRows => ({
  find: (id) => transact((tx) => find(tx, id)),
  isEndAskedFor: (id) => transact((tx) => isEndAskedFor(tx, id)),
  isDraining: ({ projectId }) => transact(({ tables }) => tables.drainingOf(projectId).length > 0),
  releaseRequest: ({ id, projectId }) =>
    transact(({ tables }) => ({
      ...{ id, projectId, ownerId: id, kind: "serve", specHash: "", platform: null, nodeSelector: {}, pinnedTo: null },
      ...{ memoryMb: tables.deployments.get(id)?.memoryMb ?? 0, cpuMillicores: 10, pidsLimit: 64, diskMb: 0 },
      hasDockerfile: false,
    })),
  nodes: memorySchedulerRows(transact).nodes,

  claim: ({ id, artifact }) =>
    transact((tx) => {
      const moved = moveDeployment(tx, id, { from: "queued", to: "building", phase: "claimed" });
      if (moved && artifact !== null) moveDeployment(tx, id, artifactReady);
    }),
  beginDeploying: ({ id }) => transact((tx) => void moveDeployment(tx, id, artifactReady)),
  cancel: ({ id, status }, detail, release) =>
    transact((tx) => {
      if (!moveDeployment(tx, id, { from: status, to: "canceled", phase: "canceled" })) return;
      endBadly(tx, id, `Canceled: ${detail}.`, release.release_status);
    }),
  fail: ({ id, status }, { text, release }) =>
    transact((tx) => {
      if (!moveDeployment(tx, id, { from: status, to: "failed", phase: "failed" })) return;
      endBadly(tx, id, text, release.release_status);
    }),

  placeAttempt: ({ id }, number, nodeId) =>
    transact(({ tables }) => {
      const row = tables.deployments.get(id);
      if (row?.releaseStatus !== "pending" || row.releaseAttempt !== number - 1) return null;
      Object.assign(row, { releaseAttempt: number, releaseNodeId: nodeId });
      return attemptOf(row);
    }),
  noteOffer: ({ id }) =>
    transact(({ tables, now }) => void tables.lines.push({ of: id, what: "release-offered", at: now })),
  recordRelease: ({ id }, { status }) =>
    transact(({ tables, now }) => {
      const row = tables.deployments.get(id);
      const from = status === "running" ? ["pending"] : ["pending", "running"];
      if (row === undefined || !from.includes(row.releaseStatus)) return;
      row.releaseStatus = status;
      tables.lines.push({ of: id, what: `release-${status}`, at: now });
    }),

  createServe: ({ id, projectId }, what) =>
    transact((tx) => {
      const { tables, now } = tx;
      const row = tables.deployments.get(id);
      if (row?.status !== "deploying" || tables.suspended.has(projectId)) return;
      // A late worker must not take away what another one has let serve since.
      if (tables.siteOf(projectId)?.deploymentId === id) return;
      if (fillSlots(tx, row, what).length > 0) tables.lines.push({ of: id, what: "starting", at: now });
    }),
  endDrains: ({ projectId }) =>
    transact(({ tables, notify }) => {
      if (tables.drainingOf(projectId).length === 0) return;
      tables.endDrains(projectId);
      notify(taskTopic);
    }),
  hold: ({ id, projectId }) =>
    transact((tx) => {
      const row = toHaveChannel(tx, id, { held: true });
      if (row === null || tx.tables.siteOf(projectId)?.deploymentId === id) return;
      moveDeployment(tx, id, { from: "deploying", to: "stopped", phase: "held" });
      pointChannel(tx, projectId, { deploymentId: id, stopped: true });
      supersedeOthers(tx, row);
      retire(tx, id);
      tx.tables.endDrains(projectId);
      tx.notify(taskTopic);
    }),
  activate: ({ id, projectId }) =>
    transact((tx) => {
      if (toHaveChannel(tx, id, { held: false }) === null) return;
      pointChannel(tx, projectId, { deploymentId: id, stopped: false });
      tx.tables.lines.push({ of: id, what: "routing", at: tx.now });
    }),
  finish: ({ id, attempt }) =>
    transact((tx) => {
      const row = tx.tables.deployments.get(id);
      if (row?.status !== "deploying" || isEndAskedFor(tx, id)) return;
      moveDeployment(tx, id, { from: "deploying", to: "running", phase: "running" });
      supersedeOthers(tx, row);
      if (attempt !== null) retire(tx, id);
    }),
});

function find({ tables, now }: Tx, id: string): DeployRow | null {
  const row = tables.deployments.get(id);
  if (row === undefined) return null;
  const { projectId, status, statusSince, cancelRequested, heldAt, replicas, hasRelease, releaseStatus } = row;
  const site = tables.siteOf(projectId);
  const active = status === "deploying" && site?.deploymentId === id;
  const tasks = tables.tasksOf(id);
  const isRefused = tasks.some(({ desired, refused }) => desired !== "removed" && refused !== null);
  const isOvertaken = [...tables.deployments.values()].some(
    (other) => other.projectId === projectId && other.number > row.number && open.has(other.status),
  );
  return {
    ...{ now, id, projectId, type: "ssr", status, statusSince, cancelRequested, held: heldAt !== null },
    ...{ projectGone: false, suspended: tables.suspended.has(projectId) },
    overtaken: status === "queued" && isOvertaken,
    artifact: { kind: "image", digest: "sha256:0" },
    release: { timeoutSeconds: hasRelease ? releaseTimeoutSeconds : null, status: releaseStatus },
    attempt: releaseStatus === "not_configured" || releaseStatus === "skipped" ? null : attemptOf(row),
    ...{ healthTimeoutSeconds, replicas },
    replacesContainers: isRefused && tables.servingBeside(row).some((other) => other.status === "running"),
    tasks: tasks.map(({ id: taskId, kind, replica, createdAt, desired, nodeId, refused }) => ({
      ...{ id: taskId, kind, replica, created_at: createdAt, desired, node_id: nodeId, refused },
    })),
    activatedAt: active ? site.changedAt : null,
    hosts: active ? tables.hostsOf(projectId) : [],
    edges: active ? tables.edgesInRotation() : [],
  };
}

const attemptOf = ({ id, projectId, releaseAttempt: number, releaseNodeId }: DeploymentRow): DeployAttempt | null =>
  releaseNodeId === null
    ? null
    : {
        ...{ id: releaseAttemptId(id, number), number, kind: "release", node_id: releaseNodeId },
        ...{ owner_kind: "deployment", owner_id: id, project_id: projectId },
      };

function isEndAskedFor({ tables }: Tx, id: string): boolean {
  const row = tables.deployments.get(id);
  return row === undefined || row.cancelRequested || tables.suspended.has(row.projectId);
}

/** As `lockForChannel` of `take-over.ts`: the deployment, if it is to have the channel in this way. */
function toHaveChannel(tx: Tx, id: string, { held }: { held: boolean }): DeploymentRow | null {
  const row = tx.tables.deployments.get(id);
  const isToHave = row?.status === "deploying" && !isEndAskedFor(tx, id) && (row.heldAt !== null) === held;
  return isToHave ? row : null;
}

function endBadly(tx: Tx, id: string, error: string, releaseStatus: DeploymentRow["releaseStatus"]): void {
  const row = tx.tables.deployments.get(id);
  if (row === undefined) return;
  Object.assign(row, { error, releaseStatus });
  giveChannelBack(tx, row);
  retire(tx, id);
}
