import type { MemoryNode, MemoryTask, NewContainer } from "@svc/control/fleet/testing/tables";
import { MemoryBackups } from "@svc/control/tenants/databases/testing/memory/backups";
import { type DatabaseTables, MemoryBranches } from "@svc/control/tenants/databases/testing/memory/tables";
import * as rows from "@svc/control/tenants/deployments/testing/memory/tables";
import type { Kernel, Process, Wait } from "../kernel/kernel.ts";
import type { StoreTrouble } from "./etcd-path.ts";

/** What the manifests of its deployments say. */
export interface SiteRow extends rows.SiteRow {
  replicas: number;
  memoryMb: number;
  drainSeconds: number;
}

export type DeploymentRow = rows.DeploymentRow;
export const { releaseAttemptId } = rows;

export type TaskRow = MemoryTask;

export interface NodeRow extends MemoryNode {
  incarnation: number;
  /** Since when it is so, in true time: for the checks only. */
  unschedulableSinceMs: number | null;
  memoryMb: number;
}

export interface TokenRow {
  id: string;
  expiresAt: Date;
  revokedAt: Date | null;
  usedAt: Date | null;
  usedKeyHash: Buffer | null;
  nodeId: string | null;
}

/** What is in Postgres, as far as the cluster's core goes. */
export class Tables extends rows.DeploymentTables implements DatabaseTables {
  readonly branches = new MemoryBranches();
  readonly backups = new MemoryBackups();
  clusterEpoch = 1;
  override readonly nodes = new Map<string, NodeRow>();
  /** When the removal of a task was asked for, in true time: for the checks only. */
  readonly removedAtMs = new Map<string, number>();
  override readonly sites = new Map<string, SiteRow>();
  readonly tokens = new Map<string, TokenRow>();
  private readonly kernel: Kernel;

  constructor(kernel: Kernel) {
    super();
    this.kernel = kernel;
  }

  /** Called before a container is made in place of another: for the checks. */
  onReplace: (cause: string) => void = () => {};

  override insertContainer(container: NewContainer): TaskRow {
    if (container.cause !== null) this.onReplace(container.cause);
    return super.insertContainer(container);
  }

  /** Whoever calls it tells of it. */
  enqueue(kind: "deploy" | "retire", deploymentId: string, key: string, now: Date): void {
    this.work.add({ now, notify() {} }, { kind, key, payload: { deploymentId } });
  }

  override siteOf(projectId: string): SiteRow | null {
    return super.siteOf(projectId) as SiteRow | null;
  }

  override mayRedo(ownerId: string): boolean {
    return super.mayRedo(ownerId) || this.backups.mayRedo(ownerId) || this.branches.mayRedo(ownerId);
  }

  override removeTasks(ids: readonly string[], drainSeconds = 0): void {
    super.removeTasks(ids, drainSeconds);
    for (const id of ids) if (!this.removedAtMs.has(id)) this.removedAtMs.set(id, this.kernel.nowMs);
  }
}

/** A commit of unknown outcome, or a database that does not answer. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError";
}

/** Called in a transaction: told to everybody who listens once it is committed. */
export type Notify = (
  topic: "task" | "route" | "work" | "node" | "replica" | "job" | "jobRun" | "branch",
  payload?: string,
) => void;

const statementTimeoutMs = 5_000;

/** One Postgres: every transaction happens at one moment, and whether it did may stay unknown. */
export class Postgres {
  readonly tables: Tables;
  isUp = true;
  readonly listeners = new Set<{ process: Process; life: number; heard: Notify }>();
  /** Called after every transaction. */
  onCommit: () => void = () => {};

  readonly kernel: Kernel;
  readonly process: Process;
  readonly trouble: StoreTrouble;

  constructor(kernel: Kernel, process: Process, trouble: StoreTrouble) {
    this.kernel = kernel;
    this.tables = new Tables(kernel);
    this.process = process;
    this.trouble = trouble;
  }

  now = (): Date => this.process.now();
  nowMs = (): number => this.process.wallMs();

  /** A transaction, or a read. It must not be left half done: it cannot fail in the middle. */
  transact<T>(client: Process, cutUntilMs: () => number, work: (tables: Tables, notify: Notify) => T): Wait<T> {
    return (done, fail, scope) => {
      const { kernel } = this;
      const { random } = client;
      const isReachable = () => this.isUp && kernel.nowMs >= cutUntilMs();
      let isOver = false;
      const finish = (act: () => void) => {
        if (isOver) return;
        isOver = true;
        timer[Symbol.dispose]();
        act();
      };
      const lost = () => fail(new DatabaseError("no answer"));
      const timer = scope.after(statementTimeoutMs, "postgres timeout", () => finish(lost));
      const latencyMs = () =>
        random.chance(this.trouble.slowShare) ? random.between(20, 900) : random.between(0.2, 2);
      const isUnknown = random.chance(this.trouble.unknownShare);
      const isLostBefore = isUnknown && random.chance(0.4);
      const answerMs = latencyMs();
      const answer = (tag: string, act: () => void): void => {
        kernel.at(answerMs, tag, () => finish(act), client).scope = scope;
      };
      kernel.at(latencyMs(), "postgres", () => {
        if (!isReachable()) return this.isUp ? undefined : answer("postgres refused", lost);
        if (isLostBefore) return answer("postgres lost", lost);
        const told = new Map<string, Parameters<Notify>>();
        const result = work(this.tables, (...said) => told.set(said.join(" "), said));
        this.onCommit();
        for (const said of told.values()) this.tell(...said);
        answer("postgres answer", () => (isUnknown || !isReachable() ? lost() : done(result)));
      });
    };
  }

  private tell(...said: Parameters<Notify>): void {
    for (const { process, life, heard } of this.listeners) {
      if (process.life !== life || !process.alive) continue;
      this.kernel.at(process.random.between(0.3, 4), "notify", () => heard(...said), process);
    }
  }
}
