import {
  type MemoryDeployment,
  type MemorySite,
  MemoryTables,
  type MemoryTask,
  type MemoryTransaction,
  type NewContainer,
} from "../../../../fleet/testing/tables.ts";
import type { ReleaseStatus } from "../../../../stores/db/tables.ts";
import { JobTables } from "../../../jobs/testing/memory/tables.ts";

/** A deployment with an image, to production, as far as workers ask. */
export interface DeploymentRow extends MemoryDeployment {
  /** Those of a project are counted. */
  readonly number: number;
  /** What is set aside for each of its containers. */
  readonly memoryMb: number;
  statusSince: Date;
  cancelRequested: boolean;
  readonly hasRelease: boolean;
  releaseStatus: ReleaseStatus;
  /** The newest attempt at its release command, and the node that it belongs to; 0 and null before the first. */
  releaseAttempt: number;
  releaseNodeId: string | null;
  /** A stop covers it. */
  heldAt: Date | null;
  error: string | null;
}

/** A host, and what its project's production serves. */
export interface SiteRow extends MemorySite {
  changedAt: Date;
}

/** The id of an attempt: there is no table of runs. */
export const releaseAttemptId = (deploymentId: string, attempt: number) => `${deploymentId}.${attempt}`;

/** How long a new version has to answer. */
export const healthTimeoutSeconds = 30;

/** A container may take more than is set aside for it: several of a node together more than the node has. */
export const limitsOf = (reservedMemoryMb: number) => ({
  ...{ memoryMb: 4 * reservedMemoryMb, cpuMillicores: 100, pidsLimit: 64, storageMb: 512 },
  ...{ reservedMemoryMb, reservedCpuMillicores: 10 },
});

/** The rows that workers of deployments ask for and change. Each project has one host, and only production. */
export class DeploymentTables extends MemoryTables {
  override readonly sites = new Map<string, SiteRow>();
  override readonly deployments = new Map<string, DeploymentRow>();
  /** Projects that are suspended. */
  readonly suspended = new Set<string>();
  readonly jobs = new JobTables();

  siteOf(projectId: string): SiteRow | null {
    return [...this.sites.values()].find((site) => site.projectId === projectId) ?? null;
  }

  hostsOf(projectId: string): string[] {
    return [...this.sites.values()].flatMap((site) => (site.projectId === projectId ? [site.host] : []));
  }

  tasksOf(deploymentId: string): MemoryTask[] {
    return [...this.tasks.values()].filter((task) => task.ownerId === deploymentId);
  }

  /** Those that are to run. */
  wantedTasksOf(deploymentId: string): MemoryTask[] {
    return this.tasksOf(deploymentId).filter(({ desired }) => desired === "running");
  }

  override insertContainer({ deploymentId, ...rest }: NewContainer): MemoryTask {
    return this.insert({
      ...{ ...rest, ownerKind: "deployment", ownerId: deploymentId, kind: "serve", channel: "production" },
      ...{ specHash: `spec of ${deploymentId}`, ...limitsOf(this.deployments.get(deploymentId)?.memoryMb ?? 0) },
    });
  }

  /** Containers of a project that were replaced and serve what is open. */
  drainingOf(projectId: string): string[] {
    return [...this.open.values()]
      .filter((task) => task.projectId === projectId && task.desired === "removed" && task.drainSeconds > 0)
      .map(({ id }) => id);
  }

  /** What the channel of `deployment` served before, or would have after a start, newest first. */
  servingBeside({ id, projectId }: DeploymentRow): DeploymentRow[] {
    return [...this.deployments.values()]
      .filter((other) => other.projectId === projectId && other.id !== id)
      .filter(({ status }) => status === "running" || status === "stopped")
      .reverse();
  }

  endDrains(projectId: string): void {
    this.removeTasks(this.drainingOf(projectId));
  }
}

export type Tx = MemoryTransaction<DeploymentTables>;

/** As `moveDeployment` of `store.ts`; false when it is not in `from` any more. */
export function moveDeployment(
  { tables, now }: Tx,
  id: string,
  { from, to, phase }: { from: DeploymentRow["status"]; to: DeploymentRow["status"]; phase: string },
): boolean {
  const row = tables.deployments.get(id);
  if (row?.status !== from) return false;
  Object.assign(row, { status: to, statusSince: now });
  tables.lines.push({ of: id, what: phase, at: now });
  return true;
}
