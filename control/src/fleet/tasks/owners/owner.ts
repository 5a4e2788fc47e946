import type { Manifest } from "@svc/proto";
import type { OwnerKind, RunKind } from "@svc/proto/kinds";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Channel, Deployment, JobRun, Project } from "../../../stores/db/tables.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import type { PriorBuild } from "../prior-builds.ts";

/** A site's gate, and the channel whose sites it is to open. */
export interface GateOf {
  projectId: string;
  /** bcrypt. */
  passwordHash: string;
  channel: string;
}

/** What is known of an owner when a node is told of its work, by the kind of the owner. */
export interface OwnerFacts {
  /** Of a backup whose branch is still there. */
  backup: {
    /** Of the role that owns the database. */
    password(): string;
  };
  /** Of a copy that has not ended, or is about to be looked at. */
  copy: {
    id: string;
    /** Of the server's user who may read it all. Throws `CannotOpen`, also when the branch has none (any more). */
    password(): string;
  };
  deployment: {
    deployment: Deployment;
    project: Project;
    manifest: Manifest;
    /** The variables that it was accepted with, opened. */
    ownEnv: Readonly<Record<string, string>>;
    /** All that its containers are told: the platform's variables over its own. */
    env: Readonly<Record<string, string>>;
    /** Values of that which must not show in a log. */
    secretValues: readonly string[];
    /** Of the database that it is told of; empty: of none. */
    databaseId: string;
    /** Stands for `ownEnv` without showing it. */
    envDigest(): string;
    /** What was built of the same source, the newest first; empty unless a build of it is asked for. */
    priorBuilds: readonly PriorBuild[];
  };
  screenshot: {
    /** What its site asks visitors for; null: nothing. */
    gate: GateOf | null;
  };
  database: {
    branch: Branch;
    /** What the server keeps of its administrator's password. */
    adminVerifier(): string;
  };
  /** Of a run of a job whose deployment is still there: what its attempts run in, and with what. */
  job: Pick<OwnerFacts["deployment"], "deployment" | "manifest" | "env" | "secretValues" | "databaseId"> & {
    run: JobRun;
    /** As the manifest has it. */
    jobName: string;
    /** Counts attempts that began, the one that is to begin included. */
    attempt: number;
  };
}

/** A task or a run, and what it was made for. */
export interface Work {
  id: string;
  ownerKind: OwnerKind;
  ownerId: string;
}

/** Whose something is, in words that show no address. */
export interface Whose {
  project: string;
  channel: Channel;
  prNumber: number | null;
}

/** The newest attempt at a command of an owner that is under way and does not know how it ended. */
export interface OpenAttempt {
  attemptId: string;
  kind: RunKind;
  ownerKind: OwnerKind;
  ownerId: string;
  projectId: string;
  nodeId: string;
}

/** One line of an owner's timeline. */
export interface Line {
  phase: string;
  detail: string;
}

/**
 * All that the fleet has to know of what tasks and runs are made for: one module for each kind, and one line in `owners`.
 * Whoever changes tasks of an owner in a transaction holds the owner first: see `lockTasks`.
 */
export interface Owner<Facts> {
  /**
   * What nodes are told of the owners of `work`, by the owner's id, without those that are gone. Rows of all are read at
   * once; what is sealed is opened only when one is asked for, and throws `CannotOpen` then: that is its own trouble alone.
   */
  loadFacts(
    stores: { db: Db; secrets: Secrets },
    work: readonly Pick<Work, "id" | "ownerId">[],
  ): Promise<ReadonlyMap<string, () => Facts>>;
  /** Whose these owners are, by id, without those that are gone. */
  listWhose(db: Db, ids: readonly string[]): Promise<ReadonlyMap<string, Whose>>;
  /** Where in the cluster's registry the image of its commands is; null when it has none. */
  findImageRepository(db: Db, id: string): Promise<string | null>;
  /** Those of the ids whose owner may still wait for how a run of it ends. Runs of the others are ended. */
  listWaiting(db: Db, ids: readonly string[]): Promise<string[]>;
  /** Attempts whose outcome owners wait for, as far as Postgres knows: what a restored etcd may have forgotten. */
  listOpenAttempts(db: Db): Promise<OpenAttempt[]>;
  /** Keeps the owner from going until the transaction ends; false when it is gone. */
  hold(tx: Db, id: string): Promise<boolean>;
  /**
   * Holds the owner whose task is about to be taken away, so that it asks for another, until the transaction ends; false
   * when it does not wait for that task's end any more.
   */
  lockForRedo(tx: Db, id: string): Promise<boolean>;
  /** Whether its timeline has a line of that phase. */
  hasLine(db: Db, id: string, phase: string): Promise<boolean>;
  /**
   * Whether an owner that waits for a run has no line of that phase yet. It is held, so that of two who ask in their
   * transactions only one is told so. False when it does not wait any more.
   */
  isNewLine(tx: Db, id: string, phase: string): Promise<boolean>;
  addLine(tx: Db, id: string, line: Line): Promise<void>;
}

/** Of owners whose tasks have no attempts and no image of their own. */
export const withoutAttempts = {
  findImageRepository: async () => null,
  listWaiting: async () => [],
  listOpenAttempts: async () => [],
} satisfies Partial<Owner<unknown>>;

/** Of owners that have no timeline: what there is to say of one is its state, or its error. */
export const withoutTimeline = {
  hasLine: async () => true,
  isNewLine: async () => false,
  addLine: async () => {},
} satisfies Partial<Owner<unknown>>;
