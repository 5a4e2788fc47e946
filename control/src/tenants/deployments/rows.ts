import { type Manifest, releaseOf, storedManifestSchema } from "@svc/proto";
import { clearAlerts, raiseAlert } from "../../fleet/alerts/raise.ts";
import { fillSlots, holdToMake } from "../../fleet/replicas/make.ts";
import { edgesInRotation } from "../../fleet/routes/progress.ts";
import { findChannelState } from "../../fleet/routes/store.ts";
import { commandRequest } from "../../fleet/scheduler/commands.ts";
import type { PlacementRequest } from "../../fleet/scheduler/placement.ts";
import { listNodeRows, type NodeRow } from "../../fleet/scheduler/store.ts";
import type { AttemptRow } from "../../fleet/tasks/attempts.ts";
import { endDrains, listDraining } from "../../fleet/tasks/change.ts";
import { findTimedDeployment, insertEvent, listHosts, lockDeployment } from "../../fleet/tasks/deployment.ts";
import type { TaskRow } from "../../fleet/tasks/deployment-status.ts";
import { replicasOf } from "../../fleet/tasks/kinds/serve.ts";
import { findLastRun, insertRun, type RunOutcome, setRunOutcome } from "../../fleet/tasks/run-rows.ts";
import { listTasks } from "../../fleet/tasks/store.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Project, Run, Task } from "../../stores/db/tables.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import { pointChannel } from "./channel.ts";
import { retire } from "./retire/request.ts";
import type { DeployFacts, DeployStep } from "./steps.ts";
import { canceledError, isEndAskedFor, isOvertaken, listServing, moveDeployment } from "./store.ts";
import { alertOf, giveChannelBack, lockForChannel, supersedeOthers } from "./take-over.ts";

/** An attempt at a release command, and the node that it belongs to for good. */
export type DeployAttempt = AttemptRow & Pick<Run, "number">;

/** What is recorded of a release command when its deployment ends badly. */
export type ReleaseOutcome = Partial<Pick<Deployment, "release_error" | "release_skipped_reason">> &
  Pick<Deployment, "release_status">;

type Known =
  | "now"
  | "id"
  | "type"
  | "status"
  | "statusSince"
  | "cancelRequested"
  | "held"
  | "projectGone"
  | "suspended"
  | "overtaken"
  | "artifact"
  | "healthTimeoutSeconds"
  | "replicas"
  | "replacesContainers";

/** A deployment, as far as Postgres knows what decides its next step. */
export interface DeployRow extends Pick<DeployFacts, Known> {
  projectId: string;
  release: Pick<DeployFacts["release"], "timeoutSeconds" | "status">;
  /** The newest attempt at its release command; null before the first. */
  attempt: DeployAttempt | null;
  tasks: readonly (TaskRow & Pick<Task, "kind">)[];
  /** Since when its channel leads to it on its way; null: it does not. */
  activatedAt: Date | null;
  /** Once it does: hosts that serve the channel, and the edges that visitors may reach. */
  hosts: readonly string[];
  edges: readonly string[];
}

/** Why a deployment ended badly. */
export interface Failure {
  code: string;
  text: string;
  /** Its place in the list of codes that users are told. */
  errorCode: Deployment["error_code"];
  release: ReleaseOutcome;
  /** Of its newest attempt; null: nothing is to be said of it. */
  outcome: RunOutcome | null;
}

type Step<K extends DeployStep["do"]> = Extract<DeployStep, { do: K }>;

/**
 * What deploys ask of Postgres. Each change is one transaction that looks again at what it rests on: one that rests on nothing
 * any more does nothing, and each may be repeated. `at`: when it was, where a time is kept.
 */
export interface DeployRows<Found extends DeployRow = DeployRow> {
  /** Null: it is gone. */
  find(id: string): Promise<Found | null>;
  /** Whether one that is on its way is to end: canceled, or its project deleted or suspended. */
  isEndAskedFor(id: string): Promise<boolean>;
  /** Whether replaced containers of its project still serve what is open. */
  isDraining(of: Found): Promise<boolean>;
  /** What is asked of a node for its release command, and the nodes that there are. */
  releaseRequest(of: Found): Promise<PlacementRequest>;
  nodes(): Promise<NodeRow[]>;

  /** It is worked on; what has an artifact is to be deployed at once. */
  claim(of: Found, at: Date): Promise<void>;
  beginDeploying(of: Found): Promise<void>;
  /** It ends, what it started goes, and what served before it serves again. */
  cancel(of: Found, detail: string, release: ReleaseOutcome, at: Date): Promise<void>;
  fail(of: Found, failure: Failure, at: Date): Promise<void>;

  /** Puts down where an attempt is to be made, before anybody is offered it; null: somebody else did, or nobody is to. */
  placeAttempt(of: Found, number: number, nodeId: string): Promise<DeployAttempt | null>;
  noteOffer(of: Found): Promise<void>;
  /** Only forward, and told once. */
  recordRelease(of: Found, end: Pick<Step<"recordRelease">, "status" | "run">, at: Date): Promise<void>;

  /** Containers for these slots, as far as they are empty without what is abandoned, until its channel leads to it. */
  createServe(of: Found, what: Pick<Step<"createServe">, "slots" | "abandoned">): Promise<void>;
  endDrains(of: Found): Promise<void>;
  /** What a stop covers is ready, and serves after a start. */
  hold(of: Found, at: Date): Promise<void>;
  /** Visitors are to get it, unless a stop covers it or its end was asked for. */
  activate(of: Found): Promise<void>;
  /** They do: it runs, and what was before it goes. */
  finish(of: Found, detail: string | null, at: Date): Promise<void>;
}

/** With what builds are made of. */
export interface StoredDeploy extends DeployRow {
  deployment: Deployment;
  project: Project;
  manifest: Manifest;
}

/** Of one that is on its way: no release command was ever offered, or will be. */
const withoutRelease: ReadonlySet<Deployment["release_status"]> = new Set(["not_configured", "skipped"]);

const artifactReady = { from: "building", to: "deploying", phase: "artifact-ready" } as const;
const heldDetail = "production was stopped while it was on its way; it serves after a start";

/** Errors are for people: bounded. They may end with the last lines of a program, which `view.ts` shows to some only. */
const errorLengthMax = 4096;

export const deployRows = (db: Db): DeployRows<StoredDeploy> => ({
  find: (id) => find(db, id),
  isEndAskedFor: (id) => isEndAskedFor(db, id),
  isDraining: async ({ projectId }) => (await listDraining(db, { projectIds: [projectId] })).length > 0,
  async releaseRequest({ deployment, project }) {
    const plan = await planOfUser(db, project.owner_id);
    // The command runs in the image that the site's containers will have; where it is matters little.
    return commandRequest({ id: deployment.id, ownerId: deployment.id, specHash: "" }, deployment, plan);
  },
  nodes: () => listNodeRows(db),

  claim: ({ id, artifact }, at) =>
    inTransaction(db, async (tx) => {
      const move = { from: "queued" as const, to: "building" as const, phase: "claimed" };
      const moved = await moveDeployment(tx, id, move, { started_at: at });
      // Of what takes over an artifact nothing is built: one look and one commit less.
      if (moved && artifact !== null) await moveDeployment(tx, id, artifactReady);
    }),

  async beginDeploying({ id }) {
    await moveDeployment(db, id, artifactReady);
  },

  cancel: ({ id, status, deployment }, detail, release, at) =>
    inTransaction(db, async (tx) => {
      const move = { from: status, to: "canceled" as const, phase: "canceled", detail };
      if (!(await moveDeployment(tx, id, move, { finished_at: at, error: canceledError(detail) }))) return;
      await tx.updateTable("deployment").set(release).where("id", "=", id).execute();
      await giveChannelBack(tx, deployment);
      await retire(tx, id);
    }),

  fail: ({ id, status, deployment, attempt }, { code, text, errorCode, release, outcome }, at) =>
    inTransaction(db, async (tx) => {
      const detail = `${code}: ${text}`;
      const move = { from: status, to: "failed" as const, phase: "failed", detail: detail.slice(0, errorLengthMax) };
      const change = { error: text.slice(0, errorLengthMax), error_code: errorCode, finished_at: at };
      if (!(await moveDeployment(tx, id, move, change))) return;
      await tx.updateTable("deployment").set(release).where("id", "=", id).execute();
      if (attempt !== null && outcome !== null) await setRunOutcome(tx, attempt.id, outcome);
      await raiseAlert(tx, { ...alertOf(deployment, "deployFailed"), detail });
      await giveChannelBack(tx, deployment);
      await retire(tx, id);
    }),

  placeAttempt: ({ id, projectId }, number, nodeId) =>
    inTransaction(db, async (tx) => {
      const isPending = await tx
        .selectFrom("deployment")
        .select("id")
        .where("id", "=", id)
        .where("release_status", "=", "pending")
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (isPending === undefined) return null;
      const of = { project_id: projectId, owner_kind: "deployment", owner_id: id } as const;
      return insertRun(tx, { ...of, kind: "release", number, node_id: nodeId });
    }),

  noteOffer: ({ id }) => insertEvent(db, { deploymentId: id, phase: "release-offered" }),

  recordRelease: ({ id }, { status, run }, at) =>
    inTransaction(db, async (tx) => {
      const { numUpdatedRows } = await tx
        .updateTable("deployment")
        .set({ release_status: status })
        .where("id", "=", id)
        // A worker that fell behind must not take a finished command back to running, nor tell it twice.
        .where("release_status", "in", status === "running" ? ["pending"] : ["pending", "running"])
        .executeTakeFirst();
      if (numUpdatedRows !== 1n) return;
      await setRunOutcome(tx, run.attemptId, {
        started_at: run.startedAt === null ? at : new Date(run.startedAt),
        ...(status === "succeeded" && {
          finished_at: run.finishedAt === null ? at : new Date(run.finishedAt),
          exit_code: run.exitCode,
        }),
      });
      await insertEvent(tx, { deploymentId: id, phase: `release-${status}` });
    }),

  createServe: ({ id, deployment, project }, what) =>
    inTransaction(db, async (tx) => {
      // A late worker must not take away what another one has let serve since.
      const wanted = { status: "deploying", channel: "another" } as const;
      const held = await holdToMake(tx, { deployment, project }, wanted);
      if (held === null) return;
      const filled = await fillSlots(tx, held, what);
      if (filled.length > 0) await insertEvent(tx, { deploymentId: id, phase: "starting" });
    }),

  endDrains: ({ projectId }) => endDrains(db, { projectIds: [projectId] }),

  hold: ({ id, deployment }, at) =>
    inTransaction(db, async (tx) => {
      if (!(await lockForChannel(tx, deployment, { held: true }))) return;
      // What a worker of before has let serve since is stopped as any other.
      if ((await findChannelState(tx, deployment))?.deployment_id === id) return;
      const move = { from: "deploying" as const, to: "stopped" as const, phase: "held", detail: heldDetail };
      if (!(await moveDeployment(tx, id, move, { finished_at: at }))) return;
      await pointChannel(tx, deployment, { deploymentId: id, stopped: true });
      await supersedeOthers(tx, deployment);
      // With what it has started before the stop was asked for.
      await retire(tx, id);
      // The stop may find nothing left to do, and so nothing to end.
      await endDrains(tx, { projectIds: [deployment.project_id], channel: deployment });
    }),

  activate: ({ id, deployment }) =>
    inTransaction(db, async (tx) => {
      if (!(await lockForChannel(tx, deployment, { held: false }))) return;
      await pointChannel(tx, deployment, { deploymentId: id, stopped: false });
      await insertEvent(tx, { deploymentId: id, phase: "routing" });
    }),

  finish: ({ id, deployment, attempt }, detail, at) =>
    inTransaction(db, async (tx) => {
      // Whoever asked for the end before this moment gets it; whoever asks later is told that it runs.
      if (!(await lockDeployment(tx, id, "deploying"))) return;
      if (await isEndAskedFor(tx, id)) return;
      const move = { from: "deploying" as const, to: "running" as const, phase: "running", detail };
      if (!(await moveDeployment(tx, id, move, { finished_at: at }))) return;
      await supersedeOthers(tx, deployment);
      // What fell over before has another in its place.
      await clearAlerts(tx, alertOf(deployment, "deployFailed"), ["deployFailed", "siteDown"]);
      if (attempt !== null) await retire(tx, id);
    }),
});

/** It is read often, by many at once: what decides in some situations only is read in those. */
async function find(db: Db, id: string): Promise<StoredDeploy | null> {
  const [found, tasks] = await Promise.all([findTimedDeployment(db, id), listTasks(db, id)]);
  if (found === null) return null;
  const { deployment, project, channel, now } = found;
  const manifest = storedManifestSchema.parse(deployment.manifest);
  // Nothing has the channel before.
  const active = deployment.status === "deploying" && channel?.deploymentId === id;
  const isRefused = tasks.some((task) => task.desired !== "removed" && task.refused !== null);
  const [attempt, overtaken, hosts, edges, serving] = await Promise.all([
    withoutRelease.has(deployment.release_status) ? null : findLastRun(db, id, "release"),
    deployment.status === "queued" && isOvertaken(db, deployment),
    active ? listHosts(db, deployment) : [],
    active ? edgesInRotation(db) : [],
    isRefused ? listServing(db, deployment) : [],
  ]);
  return {
    ...{ deployment, project, manifest, now, id, attempt, overtaken, tasks, edges },
    projectId: project.id,
    type: project.type,
    status: deployment.status,
    statusSince: deployment.phase_started_at ?? deployment.created_at,
    cancelRequested: deployment.cancel_requested_at !== null,
    held: deployment.held_at !== null,
    projectGone: project.deleting_at !== null,
    suspended: project.suspended_at !== null,
    artifact:
      deployment.artifact_kind && deployment.artifact_digest
        ? { kind: deployment.artifact_kind, digest: deployment.artifact_digest }
        : null,
    release: { timeoutSeconds: releaseOf(manifest).timeoutSeconds, status: deployment.release_status },
    healthTimeoutSeconds: manifest.health.timeoutSeconds,
    replicas: project.type === "static" ? 0 : replicasOf(manifest),
    replacesContainers: serving.some(({ status, artifact_kind }) => status === "running" && artifact_kind === "image"),
    activatedAt: active ? (channel?.changedAt ?? null) : null,
    hosts: hosts.map(({ host }) => host),
  };
}
