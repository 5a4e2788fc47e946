import type { LinkKind } from "@svc/control/fleet/nodes/events/links";
import type { ReleaseStatus } from "@svc/control/stores/db/tables";
import type { DeploymentStatus } from "@svc/proto";
import { type Kernel, type Process, pause, type Wait, type Work, wait } from "../kernel/kernel.ts";
import type { StoreTrouble } from "./etcd-path.ts";

export interface SiteRow {
  host: string;
  projectId: string;
  replicas: number;
  memoryMb: number;
  /** What the manifests of its deployments say. */
  drainSeconds: number;
  /** The deployment that the channel serves. */
  deploymentId: string | null;
  stopped: boolean;
  changedAt: Date;
}

/** The id of an attempt: there is no table of runs here. */
export const releaseAttemptId = (deploymentId: string, attempt: number) => `${deploymentId}.${attempt}`;

export interface DeploymentRow {
  id: string;
  projectId: string;
  createdAt: Date;
  status: DeploymentStatus;
  statusSince: Date;
  replicas: number;
  cancelRequested: boolean;
  /** A stop covers it. */
  heldAt: Date | null;
  /** How long its containers may serve what is open once they are replaced. */
  drainSeconds: number;
  hasRelease: boolean;
  releaseStatus: ReleaseStatus;
  releaseAttempt: number;
  releaseNodeId: string | null;
  errorCode: string | null;
}

export interface TaskRow {
  id: string;
  projectId: string;
  deploymentId: string;
  replica: number;
  epoch: number;
  desired: "running" | "stopped" | "removed";
  drainSeconds: number;
  /** When its removal was asked for, in true time: for the checks only. */
  removedAtMs: number | null;
  nodeId: string | null;
  refused: Record<string, number> | null;
  /** What is set aside for it. */
  memoryMb: number;
  createdAt: Date;
  reaped: boolean;
  retiringAt: Date | null;
  servedAt: Date | null;
  cause: string | null;
}

export interface NodeRow {
  id: string;
  role: "node" | "edge";
  lifecycle: "active" | "fenced" | "removed";
  incarnation: number;
  schedulable: boolean;
  /** Since when it is so, in true time: for the checks only. */
  unschedulableSinceMs: number | null;
  drain: "none" | "draining" | "drained" | "deadline";
  drainGeneration: number;
  drainDeadline: Date | null;
  quarantinedAt: Date | null;
  diskFull: boolean;
  memoryMb: number;
  /** When it last came; null: it never did. */
  seenAt: Date | null;
  /** The last line of the history of its link. */
  lastLink: { kind: LinkKind; at: Date } | null;
}

export interface WorkRow {
  id: number;
  kind: "deploy" | "retire" | "stop" | "start";
  key: string;
  deploymentId: string;
  state: "queued" | "running" | "done";
  attempt: number;
  owner: string | null;
  leaseUntilMs: number;
  runAtMs: number;
  createdAtMs: number;
  drainedAtMs: number | null;
}

export interface TokenRow {
  id: string;
  expiresAt: Date;
  revokedAt: Date | null;
  usedAt: Date | null;
  usedKeyHash: Buffer | null;
  nodeId: string | null;
}

/** What the database fills in by itself. */
type TaskDefaults =
  | "id"
  | "epoch"
  | "reaped"
  | "retiringAt"
  | "servedAt"
  | "nodeId"
  | "refused"
  | "desired"
  | "drainSeconds"
  | "removedAtMs";

/** What is in Postgres, as far as the cluster's core goes. */
export class Tables {
  clusterEpoch = 1;
  leaderFence = 0n;
  readonly sites = new Map<string, SiteRow>();
  readonly deployments = new Map<string, DeploymentRow>();
  readonly tasks = new Map<string, TaskRow>();
  /** Tasks that are not reaped. */
  readonly open = new Map<string, TaskRow>();
  readonly nodes = new Map<string, NodeRow>();
  readonly work = new Map<number, WorkRow>();
  readonly tokens = new Map<string, TokenRow>();
  private nextId = 1;
  private nextEpoch = 1;

  id(kind: string): string {
    return `${kind}${this.nextId++}`;
  }

  insertTask(task: Omit<TaskRow, TaskDefaults>): TaskRow {
    const row: TaskRow = {
      ...task,
      id: this.id("t"),
      epoch: this.nextEpoch++,
      desired: "running",
      drainSeconds: 0,
      removedAtMs: null,
      nodeId: null,
      refused: null,
      reaped: false,
      retiringAt: null,
      servedAt: null,
    };
    this.tasks.set(row.id, row);
    this.open.set(row.id, row);
    return row;
  }

  enqueue(kind: WorkRow["kind"], deploymentId: string, key: string, nowMs: number): void {
    const id = this.nextId++;
    const rest = { attempt: 0, owner: null, leaseUntilMs: 0, drainedAtMs: null };
    this.work.set(id, { id, kind, key, deploymentId, state: "queued", runAtMs: nowMs, createdAtMs: nowMs, ...rest });
  }

  siteOf(projectId: string): SiteRow | null {
    return [...this.sites.values()].find((site) => site.projectId === projectId) ?? null;
  }

  tasksOf(deploymentId: string): TaskRow[] {
    return [...this.tasks.values()].filter((task) => task.deploymentId === deploymentId);
  }

  wantedTasksOf(deploymentId: string): TaskRow[] {
    return this.tasksOf(deploymentId).filter(({ desired }) => desired !== "removed");
  }

  /** Mirrors `removeTasks` and `endDrains` of `control/src/tenants/deployments/store.ts`. `trueMs`: see `removedAtMs`. */
  removeTasks(ids: readonly string[], trueMs: number, drainSeconds = 0): void {
    for (const id of ids) {
      const task = this.open.get(id);
      if (task === undefined || (task.desired === "removed" && task.drainSeconds <= drainSeconds)) continue;
      task.desired = "removed";
      task.drainSeconds = drainSeconds;
      task.removedAtMs ??= trueMs;
    }
  }

  drainingOf(projectId: string): string[] {
    return [...this.open.values()]
      .filter((task) => task.projectId === projectId && task.desired === "removed" && task.drainSeconds > 0)
      .map(({ id }) => id);
  }

  endDrains(projectId: string, trueMs: number): void {
    this.removeTasks(this.drainingOf(projectId), trueMs);
  }

  /** What the channel served before `deployment`, or would have after a start, newest first. */
  servingBeside({ id, projectId }: DeploymentRow): DeploymentRow[] {
    return [...this.deployments.values()]
      .filter(
        (other) =>
          other.projectId === projectId &&
          other.id !== id &&
          (other.status === "running" || other.status === "stopped"),
      )
      .reverse();
  }
}

/** A commit of unknown outcome, or a database that does not answer. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError";
}

/** Called in a transaction: told to everybody who listens once it is committed. */
export type Notify = (topic: "task" | "route" | "work" | "node") => void;

const statementTimeoutMs = 5_000;

/** One Postgres: every transaction happens at one moment, and whether it did may stay unknown. */
export class Postgres {
  readonly tables = new Tables();
  isUp = true;
  readonly listeners = new Set<{ process: Process; life: number; heard: Notify }>();
  /** Called after every transaction. */
  onCommit: () => void = () => {};

  readonly kernel: Kernel;
  readonly process: Process;
  readonly trouble: StoreTrouble;

  constructor(kernel: Kernel, process: Process, trouble: StoreTrouble) {
    this.kernel = kernel;
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
        timer.cancel();
        act();
      };
      const lost = () => fail(new DatabaseError("no answer"));
      const timer = scope.after(statementTimeoutMs, "postgres timeout", () => finish(lost));
      const latencyMs = () =>
        random.chance(this.trouble.slowShare) ? random.between(20, 900) : random.between(0.2, 2);
      const isUnknown = random.chance(this.trouble.unknownShare);
      const isLostBefore = isUnknown && random.chance(0.4);
      const answerMs = latencyMs();
      kernel.at(latencyMs(), "postgres", () => {
        if (!isReachable()) {
          if (!this.isUp) kernel.at(answerMs, "postgres refused", () => !scope.isOver && finish(lost), client);
          return;
        }
        if (isLostBefore) return void kernel.at(answerMs, "postgres lost", () => !scope.isOver && finish(lost), client);
        const told = new Set<Parameters<Notify>[0]>();
        const result = work(this.tables, (channel) => told.add(channel));
        this.onCommit();
        for (const channel of told) this.tell(channel);
        const answer = isUnknown ? lost : () => done(result);
        kernel.at(answerMs, "postgres answer", () => !scope.isOver && finish(isReachable() ? answer : lost), client);
      });
    };
  }

  private tell(topic: Parameters<Notify>[0]): void {
    for (const { process, life, heard } of this.listeners) {
      if (process.life !== life || !process.alive) continue;
      this.kernel.at(process.random.between(0.3, 4), "notify", () => heard(topic), process);
    }
  }
}

/** Repeats a piece of work until it succeeds; the database's failures only. */
export function* untilDone<T>(work: () => Work<T>, pauseMs = 500): Work<T> {
  for (;;) {
    try {
      return yield* work();
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      yield* wait(pause(pauseMs));
    }
  }
}
