import { isOpen } from "@svc/proto";
import { type DeploymentRow, releaseAttemptId, type SiteRow } from "../../stores/postgres.ts";
import { Check, lagMs } from "./seen.ts";

/** What is in Postgres: who may write it, and what became of deployments and their stops. */
export class RowChecks extends Check {
  private readonly admitted = new Map<string, string>();
  private fence = 0n;
  /** What is known of deployments, in the order of their rows, of which none ever goes; and of what sites lead to. */
  private readonly known: Pick<DeploymentRow, "status" | "releaseAttempt">[] = [];
  private readonly activated = new Map<string, string | null>();

  /** Called after every transaction. */
  onCommit(): void {
    this.lookAtFence();
    this.lookAtDeployments();
    this.lookAtSites();
  }

  private lookAtFence(): void {
    const { leaderFence } = this.world.postgres.tables;
    // After a restore numbers begin anew.
    if (leaderFence < this.fence && !this.world.isRestoring)
      this.fail(6, `epoch ${leaderFence} accepted by Postgres after ${this.fence}`);
    this.fence = leaderFence;
  }

  onReplace = (cause: string): void => {
    if (cause !== "node lost" && cause !== "node quarantined") return;
    const { tables } = this.world.postgres;
    const active = [...tables.nodes.values()].filter(
      ({ role, lifecycle, seenAt }) => role === "node" && lifecycle === "active" && seenAt !== null,
    );
    const lost = active.flatMap(({ id }) => {
      const absentMs = this.seen.absentSinceMs.get(id);
      return absentMs === undefined || this.nowMs - absentMs < lagMs ? [] : [absentMs];
    });
    for (const first of lost) {
      const together = lost.filter((at) => at >= first && at - first <= 50_000).length;
      if (together >= 3 && together > active.length / 3) {
        this.fail(19, `a replica moves because of ${cause}, while ${together} of ${active.length} nodes are lost`);
      }
    }
  };

  private onActivate(row: DeploymentRow): void {
    if (this.seen.stopped.has(row.id)) this.fail(30, `${row.id} takes the traffic, and is stopped`);
    if (!row.hasRelease) return;
    const attemptId = releaseAttemptId(row.id, row.releaseAttempt);
    if (row.releaseStatus !== "succeeded")
      this.fail(5, `the route of ${row.id} moves, and its release is ${row.releaseStatus}`);
    if (!this.seen.ranToEnd.has(attemptId))
      this.fail(5, `the route of ${row.id} moves, and ${attemptId} did not run to its end`);
  }

  /** A stop covers everything that was accepted before it. What serves may go on until the stop is carried out. */
  onStopAsked({ projectId, deploymentId }: SiteRow): void {
    for (const { id, status, ...row } of this.world.postgres.tables.deployments.values()) {
      if (row.projectId !== projectId || (status !== "running" && !isOpen(status))) continue;
      this.seen.toStop.add(id);
      if (status !== "running" && id !== deploymentId) this.seen.stopped.add(id);
    }
  }

  private lookAtDeployments(): void {
    const { deployments } = this.world.postgres.tables;
    let at = -1;
    for (const { id, status, releaseAttempt } of deployments.values()) {
      at += 1;
      const before = this.known[at];
      if (before?.status === status && before.releaseAttempt === releaseAttempt) continue;
      this.known[at] = { status, releaseAttempt };
      if (before?.status !== status && status === "stopped") this.seen.stopped.add(id);
      if (before !== undefined && before.releaseAttempt !== releaseAttempt)
        this.onAttempt(
          id,
          releaseAttemptId(id, releaseAttempt),
          releaseAttempt === 1 ? null : releaseAttemptId(id, releaseAttempt - 1),
        );
    }
  }

  private lookAtSites(): void {
    const { deployments, sites } = this.world.postgres.tables;
    for (const { host, deploymentId, stopped } of sites.values()) {
      if (this.activated.get(host) === deploymentId) continue;
      this.activated.set(host, deploymentId);
      const row = deployments.get(deploymentId ?? "");
      if (row?.status === "deploying" && !stopped) this.onActivate(row);
    }
  }

  onStartAsked(projectId: string): void {
    for (const { id, ...row } of this.world.postgres.tables.deployments.values()) {
      if (row.projectId !== projectId) continue;
      this.seen.toStop.delete(id);
      this.seen.stopped.delete(id);
    }
  }

  isToStop(deploymentId: string): boolean {
    return this.seen.toStop.has(deploymentId);
  }

  onAttempt(deploymentId: string, attemptId: string, previous: string | null): void {
    if (previous === null) return;
    const isSure = this.seen.neverStarted.has(previous) && (this.seen.starts.get(previous) ?? 0) === 0;
    if (!isSure) this.fail(3, `${deploymentId}: ${attemptId} begins, and nobody knows that ${previous} never started`);
  }

  onAdmitted(tokenId: string, nodeId: string): void {
    const other = this.admitted.get(tokenId);
    if (other !== undefined && other !== nodeId) this.fail(18, `token ${tokenId} admitted ${other} and ${nodeId}`);
    this.admitted.set(tokenId, nodeId);
  }
}
