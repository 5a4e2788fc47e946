import { openJobRunStatuses } from "@svc/proto";
import { sql, type UpdateObject } from "kysely";
import { inFencedTransaction } from "../../../fleet/cluster/fenced.ts";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import { commandRequest } from "../../../fleet/scheduler/commands.ts";
import type { PlacementRequest } from "../../../fleet/scheduler/placement.ts";
import { listNodeRows, type NodeRow } from "../../../fleet/scheduler/store.ts";
import type { AttemptRow } from "../../../fleet/tasks/attempts.ts";
import { insertRun } from "../../../fleet/tasks/run-rows.ts";
import { planOfUser, plansOfProjects } from "../../../identity/plans/of-user.ts";
import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Database, JobRun, Run } from "../../../stores/db/tables.ts";
import { endRun, lockJob } from "./end.ts";
import type { Ending, Said } from "./rules.ts";
import type { JobRunFacts, JobRunStep } from "./steps.ts";

type Known =
  | "id"
  | "jobId"
  | "status"
  | "reason"
  | "trigger"
  | "attemptCount"
  | "createdAt"
  | "retryAt"
  | "deploymentId"
  | "job"
  | "projectGone"
  | "hasImage";

/** A run that is not over, as far as Postgres knows what decides its next step. */
export type OpenRun = Pick<JobRunFacts, Known>;

/** An attempt at a run, and the node that it belongs to for good. */
export type JobAttempt = AttemptRow & Pick<Run, "number" | "outcome" | "message">;

type Reserved = NonNullable<RunValue["reserved"]>;

/** A run as it was when something was decided about it. */
type Of<K extends keyof JobRunFacts> = Pick<JobRunFacts, "id" | K>;

/** How an attempt went, and what becomes of its run. */
export type Conclusion = Pick<Extract<JobRunStep, { do: "conclude" }>, "attempt" | "end" | "after">;

/**
 * What rounds over runs of jobs ask of Postgres. Each change is one transaction of the leader of that epoch, looks again at what
 * it rests on, does nothing if that is not so any more, and may be repeated. @throws LeaderOutdated
 */
export interface JobRunRows {
  /** The moment, and every run that is not over, oldest first. */
  open(): Promise<{ now: Date; runs: OpenRun[] }>;
  /** All attempts at these runs, oldest first. */
  attempts(runIds: readonly string[]): Promise<JobAttempt[]>;
  nodes(): Promise<NodeRow[]>;
  /** What is asked of a node for each of these runs, in their order; nothing for what it would run in is gone. */
  requests(runs: readonly Of<"deploymentId">[]): Promise<PlacementRequest[]>;
  /** Room that a command of the deployment takes on its node; undefined: the deployment is gone. */
  reserved(deploymentId: string): Promise<Reserved | undefined>;

  /** What waits is over; null: it does not wait any more. */
  end(epoch: bigint, of: Of<"jobId">, ending: Ending): Promise<Pick<JobRun, "status" | "reason"> | null>;
  /** The command of what runs is to end. */
  ask(epoch: bigint, of: Of<never>, reason: string): Promise<void>;
  /** What waits says why. */
  note(epoch: bigint, of: Of<never>, said: Said): Promise<void>;
  /** What waits is to run in another deployment. */
  move(epoch: bigint, of: Of<never>, deploymentId: string): Promise<void>;
  /** Puts down where an attempt at what waits is to be made, before anybody is offered it; null: there is one, or it is not wanted. */
  makeAttempt(epoch: bigint, of: Of<"deploymentId">, nodeId: string): Promise<JobAttempt | null>;
  /** It counts as running from now on, and the attempt as begun, once; false: it is not to run any more. */
  markRunning(epoch: bigint, of: Of<never>, attemptId: string): Promise<boolean>;
  /** An outcome is written down once, with what becomes of the run; false: the run is not what it was decided on. */
  conclude(epoch: bigint, of: Of<"jobId" | "status">, what: Conclusion): Promise<boolean>;
}

const waiting: readonly JobRun["status"][] = ["queued", "waiting"];
const running: readonly JobRun["status"][] = ["running", "cancel_requested"];

export function jobRunRows(db: Db): JobRunRows {
  const set = async (
    epoch: bigint,
    of: Of<never>,
    from: readonly JobRun["status"][],
    change: UpdateObject<Database, "job_run">,
  ): Promise<void> => {
    await inFencedTransaction(db, epoch, (tx) => setRun(tx, of, from, change));
  };
  return {
    async open() {
      const [now, runs] = await Promise.all([databaseClock(db), listOpen(db)]);
      return { now, runs };
    },
    attempts: (runIds) => listAttempts(db, runIds),
    nodes: () => listNodeRows(db),
    requests: (runs) => listRequests(db, runs),
    reserved: (deploymentId) => reservedFor(db, deploymentId),

    end: (epoch, { id: runId, jobId }, ending) =>
      inFencedTransaction(db, epoch, (tx) => endRun(tx, { jobId, runId, from: waiting }, ending)),
    ask: (epoch, of, reason) =>
      set(epoch, of, ["running"], { status: "cancel_requested", reason, cancel_requested_at: sql<Date>`now()` }),
    note: (epoch, of, said) => set(epoch, of, waiting, { status: "waiting", ...said }),
    move: (epoch, of, deploymentId) => set(epoch, of, waiting, { deployment_id: deploymentId }),
    makeAttempt: (epoch, of, nodeId) => inFencedTransaction(db, epoch, (tx) => makeAttempt(tx, of, nodeId)),
    markRunning: (epoch, of, attemptId) => inFencedTransaction(db, epoch, (tx) => markRunning(tx, of, attemptId)),
    conclude: (epoch, of, what) => inFencedTransaction(db, epoch, (tx) => conclude(tx, of, what)),
  };
}

async function listOpen(db: Db): Promise<OpenRun[]> {
  const rows = await db
    .selectFrom("job_run")
    .innerJoin("job", "job.id", "job_run.job_id")
    .innerJoin("project", "project.id", "job.project_id")
    .leftJoin("deployment", "deployment.id", "job_run.deployment_id")
    .select(["job_run.id", "job_run.job_id", "job_run.status", "job_run.reason", "job_run.trigger"])
    .select(["job_run.attempt_count", "job_run.created_at", "job_run.retry_at", "job_run.deployment_id"])
    .select(["job.deployment_id as job_deployment_id", "job.retries", "job.retired_at", "job.pause_reason"])
    .select(["project.deleting_at", "project.suspended_at"])
    .select(["deployment.artifact_digest", "deployment.artifact_removed_at"])
    .where("job_run.status", "in", [...openJobRunStatuses])
    .orderBy("job_run.number")
    .execute();
  return rows.map((row) => ({
    ...{ id: row.id, jobId: row.job_id, status: row.status, reason: row.reason, trigger: row.trigger },
    ...{ attemptCount: row.attempt_count, createdAt: row.created_at, retryAt: row.retry_at },
    deploymentId: row.deployment_id,
    job: {
      ...{ deploymentId: row.job_deployment_id, retries: row.retries, isRetired: row.retired_at !== null },
      pause: row.suspended_at === null ? row.pause_reason : "suspended",
    },
    projectGone: row.deleting_at !== null,
    hasImage: row.artifact_digest !== null && row.artifact_removed_at === null,
  }));
}

const listAttempts = (db: Db, ids: readonly string[]): Promise<Run[]> =>
  db
    .selectFrom("run")
    .selectAll()
    .where("kind", "=", "job")
    .where("owner_id", "=", sql<string>`any(${ids}::uuid[])`)
    .orderBy("number")
    .execute();

async function listRequests(db: Db, runs: readonly Of<"deploymentId">[]): Promise<PlacementRequest[]> {
  const deployments = await db
    .selectFrom("deployment")
    .select(["id", "project_id", "artifact_size", "artifact_os", "artifact_architecture"])
    .where("id", "in", [...new Set(runs.map(({ deploymentId }) => deploymentId))])
    .execute();
  const plans = await plansOfProjects(
    db,
    deployments.map(({ project_id }) => project_id),
  );
  const deploymentOf = new Map(deployments.map((each) => [each.id, each]));
  return runs.flatMap(({ id, deploymentId }): PlacementRequest[] => {
    const deployment = deploymentOf.get(deploymentId);
    const plan = deployment && plans.get(deployment.project_id);
    if (deployment === undefined || plan === undefined) return [];
    return [commandRequest({ id, ownerId: id, specHash: deploymentId }, deployment, plan)];
  });
}

async function setRun(
  db: Db,
  { id }: Of<never>,
  from: readonly JobRun["status"][],
  change: UpdateObject<Database, "job_run">,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("job_run")
    .set(change)
    .where("id", "=", id)
    .where("status", "in", [...from])
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** An attempt belongs to one node for good: the node is in Postgres before the offer is in etcd. */
async function makeAttempt(tx: Db, { id, deploymentId }: Of<"deploymentId">, nodeId: string): Promise<Run | null> {
  const run = await tx
    .selectFrom("job_run")
    .select("project_id")
    .where("id", "=", id)
    .where("status", "in", [...waiting])
    .where("deployment_id", "=", deploymentId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (run === undefined) return null;
  const made = await tx
    .selectFrom("run")
    .select(({ fn }) => fn.max("number").as("number"))
    .select(({ fn }) => fn.count<number>("id").filterWhere("outcome", "is", null).as("open"))
    .where("owner_id", "=", id)
    .where("kind", "=", "job")
    .executeTakeFirstOrThrow();
  if (Number(made.open) > 0) return null;
  const of = { project_id: run.project_id, owner_kind: "job", owner_id: id, kind: "job", node_id: nodeId } as const;
  return insertRun(tx, { ...of, number: Number(made.number ?? 0) + 1 });
}

async function reservedFor(db: Db, deploymentId: string): Promise<Reserved | undefined> {
  const deployment = await db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .select(["deployment.project_id", "artifact_size", "artifact_os", "artifact_architecture", "project.owner_id"])
    .where("deployment.id", "=", deploymentId)
    .executeTakeFirst();
  if (deployment === undefined) return undefined;
  const plan = await planOfUser(db, deployment.owner_id);
  const request = commandRequest({ id: "", ownerId: "", specHash: "" }, deployment, plan);
  const { memoryMb, cpuMillicores, pidsLimit } = request;
  return { memoryMb, cpuMillicores, pidsLimit };
}

async function markRunning(tx: Db, { id }: Of<never>, attemptId: string): Promise<boolean> {
  const isWanted = await setRun(tx, { id }, [...waiting, "running"], {
    status: "running",
    ...{ reason: null, message: null, retry_at: null },
    started_at: sql<Date>`coalesce(started_at, now())`,
    attempt_count: sql<number>`attempt_count + case when status = 'running' then 0 else 1 end`,
  });
  if (!isWanted) return false;
  const { numUpdatedRows } = await tx
    .updateTable("run")
    .set({ started_at: sql<Date>`coalesce(started_at, now())` })
    .where("id", "=", attemptId)
    .where("outcome", "is", null)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new Error(`attempt ${attemptId} is over, and was about to be granted`);
  return true;
}

async function conclude(
  tx: Db,
  { id, jobId, status }: Of<"jobId" | "status">,
  { attempt, end, after }: Conclusion,
): Promise<boolean> {
  if ((await lockJob(tx, jobId)) === null) return false;
  const isCounted = running.includes(status);
  if ("ends" in after) {
    // A cancellation that came meanwhile is none any more: the next look sees what it changes.
    const ended = await endRun(tx, { jobId, runId: id, from: [status] }, after.ends);
    if (ended === null) return false;
    if (end.outcome === "not_started" && isCounted) await takeBack(tx, id);
  } else {
    const isBack = await setRun(tx, { id }, [status], {
      status: "waiting",
      ...{ reason: after.reason, message: after.message, attempt_count: after.begun },
      ...(after.begun === 0 && { started_at: null }),
      retry_at: sql<Date>`now() + ${after.againMs} * interval '1 millisecond'`,
    });
    if (!isBack) return false;
  }
  if (attempt === null) return true;
  const said = attempt.run;
  await tx
    .updateTable("run")
    .set({
      ...{ outcome: end.outcome, message: end.message, exit_code: end.exitCode },
      ...(said?.startedAt && { started_at: new Date(said.startedAt) }),
      ...(end.outcome === "not_started" && { started_at: null }),
      finished_at: said?.finishedAt ? new Date(said.finishedAt) : sql<Date>`now()`,
    })
    .where("id", "=", attempt.id)
    .where("outcome", "is", null)
    .execute();
  return true;
}

/** One that never began is no attempt, and a run without any has not started. */
const takeBack = (tx: Db, id: string) =>
  tx
    .updateTable("job_run")
    .set({
      attempt_count: sql<number>`greatest(attempt_count - 1, 0)`,
      started_at: sql<Date | null>`case when attempt_count > 1 then started_at end`,
    })
    .where("id", "=", id)
    .execute();
