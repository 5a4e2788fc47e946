import type { TaskKind } from "@svc/proto/kinds";
import type { Deployment, Node, Task } from "../../stores/db/tables.ts";
import { MemoryQueue } from "../../stores/work/testing/memory.ts";
import type { BackupTaskSpec } from "../tasks/kinds/backup.ts";
import type { DatabaseTaskSpec } from "../tasks/kinds/database.ts";
import type { KeeperTaskSpec } from "../tasks/kinds/keeper.ts";

/** A task, as far as leaders ask. */
export interface MemoryTask {
  readonly id: string;
  readonly projectId: string;
  readonly kind: TaskKind;
  readonly ownerKind: Task["owner_kind"];
  readonly ownerId: string;
  readonly channel: Task["channel"];
  readonly replica: number;
  readonly epoch: number;
  readonly specHash: string;
  readonly cause: string | null;
  readonly createdAt: Date;
  /** The only node that it can run on; null: any. */
  readonly pinnedTo: string | null;
  /** What the server of a database was asked for with; null: it is none. */
  readonly server: DatabaseTaskSpec | null;
  /** What a backup was asked for with; null: it is none. */
  readonly backup: BackupTaskSpec | null;
  /** The same of who keeps a copy. */
  readonly keeper: KeeperTaskSpec | null;
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  storageMb: number;
  reservedMemoryMb: number;
  reservedCpuMillicores: number;
  desired: Task["desired"];
  drainSeconds: number;
  nodeId: string | null;
  refused: Readonly<Record<string, number>> | null;
  retiringAt: Date | null;
  servedAt: Date | null;
  reapedAt: Date | null;
}

/** A container for one slot of a deployment. */
export interface NewContainer extends Pick<MemoryTask, "projectId" | "replica" | "cause" | "createdAt"> {
  deploymentId: string;
}

/** What a container takes where nobody says otherwise. */
export const usualLimits = {
  ...{ memoryMb: 256, cpuMillicores: 500, pidsLimit: 100, storageMb: 512 },
  ...{ reservedMemoryMb: 256, reservedCpuMillicores: 500 },
} as const;

/** What is filled in by itself. */
type Defaults =
  | "id"
  | "epoch"
  | "pinnedTo"
  | "server"
  | "backup"
  | "keeper"
  | "desired"
  | "drainSeconds"
  | "nodeId"
  | "refused"
  | "retiringAt"
  | "servedAt"
  | "reapedAt";
export type NewMemoryTask = Omit<MemoryTask, Defaults>;

/** A machine, as far as leaders ask. */
export interface MemoryNode {
  readonly id: string;
  readonly role: Node["role"];
  lifecycle: Node["lifecycle"];
  schedulable: boolean;
  drain: Node["drain"];
  drainGeneration: number;
  drainDeadline: Date | null;
  quarantinedAt: Date | null;
  diskFull: boolean;
  /** An edge that never said that it is whole. */
  entering: boolean;
  /** What operators say where it is; absent: nothing. */
  zone?: string;
  readonly createdAt: Date;
  /** When it last came; null: it never did. */
  seenAt: Date | null;
}

/** A deployment, as far as leaders ask. */
export interface MemoryDeployment {
  readonly id: string;
  readonly projectId: string;
  status: Deployment["status"];
  /** What its manifest says: how many containers it is to have, and how long they may serve what is open once they are replaced. */
  readonly replicas: number;
  readonly drainSeconds: number;
}

/** A host, and what its channel serves. */
export interface MemorySite {
  readonly host: string;
  readonly projectId: string;
  deploymentId: string | null;
  stopped: boolean;
}

/** One line of the timeline of an owner, or of the history of a machine. */
export interface MemoryLine {
  /** The owner's id, or the machine's. */
  of: string;
  what: string;
  at: Date;
}

/**
 * The rows that leaders ask for and change, without a Postgres. What is true of rows there whoever changes them is so here as
 * well: epochs rise, and a drain never becomes longer.
 */
export class MemoryTables {
  leaderFence = 0n;
  readonly nodes = new Map<string, MemoryNode>();
  readonly tasks = new Map<string, MemoryTask>();
  /** Tasks that are not reaped. */
  readonly open = new Map<string, MemoryTask>();
  /** By host. */
  readonly sites = new Map<string, MemorySite>();
  readonly deployments = new Map<string, MemoryDeployment>();
  readonly lines: MemoryLine[] = [];
  readonly work = new MemoryQueue();
  private nextEpoch = 1;
  private nextId = 1;

  /** An id that no other row has, of the form that rows in Postgres have. `kind`: a letter. */
  id(kind: string): string {
    const code = kind.charCodeAt(0).toString(16);
    return `${code}000000-0000-4000-8000-${String(this.nextId++).padStart(12, "0")}`;
  }

  insert(task: NewMemoryTask & Partial<Pick<MemoryTask, "pinnedTo" | "server" | "backup" | "keeper">>): MemoryTask {
    const row: MemoryTask = {
      ...{ pinnedTo: null, server: null, backup: null, keeper: null },
      ...task,
      ...{
        id: this.id("t"),
        epoch: this.nextEpoch++,
        desired: "running",
        drainSeconds: 0,
        nodeId: null,
        refused: null,
      },
      ...{ retiringAt: null, servedAt: null, reapedAt: null },
    };
    this.tasks.set(row.id, row);
    this.open.set(row.id, row);
    return row;
  }

  /** As its deployment's manifest says. */
  insertContainer({ deploymentId, ...rest }: NewContainer): MemoryTask {
    return this.insert({
      ...{ ...rest, ownerKind: "deployment", ownerId: deploymentId, kind: "serve", channel: "production" },
      ...{ specHash: `spec of ${deploymentId}`, ...usualLimits },
    });
  }

  /** The last line about one of `kinds`; null: there is none. */
  lastLine(of: string, kinds: readonly string[]): MemoryLine | null {
    return this.lines.findLast((line) => line.of === of && kinds.includes(line.what)) ?? null;
  }

  reap(id: string, at: Date): void {
    const task = this.tasks.get(id);
    if (task !== undefined) task.reapedAt = at;
    this.open.delete(id);
  }

  /** Whether a deployment that waits for a run has no line of that phase. */
  isNewLine(deploymentId: string, phase: string): boolean {
    const isWaiting = this.deployments.get(deploymentId)?.status === "deploying";
    return isWaiting && !this.lines.some(({ of, what }) => of === deploymentId && what === phase);
  }

  /** See `lockForRedo` of the kinds of `fleet/tasks/owners`. */
  mayRedo(ownerId: string): boolean {
    return this.deployments.get(ownerId)?.status === "building";
  }

  /** See `edgesInRotation` of `fleet/routes/progress.ts`. */
  edgesInRotation(): string[] {
    const isInRotation = ({ role, lifecycle, schedulable, entering, seenAt }: MemoryNode) =>
      role === "edge" && lifecycle === "active" && schedulable && !entering && seenAt !== null;
    return [...this.nodes.values()].filter(isInRotation).map(({ id }) => id);
  }

  /** See `removeTasks` of `fleet/tasks/change.ts`. */
  removeTasks(ids: readonly string[], drainSeconds = 0): void {
    for (const id of ids) {
      const task = this.tasks.get(id);
      if (task === undefined || (task.desired === "removed" && task.drainSeconds <= drainSeconds)) continue;
      task.desired = "removed";
      task.drainSeconds = drainSeconds;
    }
  }
}

/** What a piece of work does with the rows, which it has to itself. */
export interface MemoryTransaction<Tables extends MemoryTables = MemoryTables> {
  tables: Tables;
  /** The database's time. */
  now: Date;
  /** Tells whoever listens to the topic, once it is committed. */
  notify(topic: string, about?: string): void;
}

/**
 * Runs one piece of work at one moment, all of it or nothing: it must not throw after its first change. Whoever wants calls to take
 * their time, to fail, or to have outcomes that nobody hears of, does that here.
 */
export type Transact<Tables extends MemoryTables = MemoryTables> = <T>(
  work: (tx: MemoryTransaction<Tables>) => T,
) => Promise<T>;
