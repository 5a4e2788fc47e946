import { inFencedMemory } from "../../../../fleet/testing/fenced.ts";
import { memorySchedulerRows } from "../../../../fleet/testing/scheduler-rows.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { JobRun, Run } from "../../../../stores/db/tables.ts";
import type { DeploymentTables, Tx } from "../../../deployments/testing/memory/tables.ts";
import type { JobClockRows } from "../../clock/rows.ts";
import { clockStep } from "../../clock/steps.ts";
import type { JobPauseRows } from "../../definitions/pauses.ts";
import type { JobRows } from "../../leading.ts";
import type { JobRunRows, OpenRun } from "../../runs/rows.ts";
import { beginRuns, endRun, skipMissed } from "./begin.ts";
import { settleJobs, situationOf } from "./change.ts";
import { hasImage, runIn } from "./tables.ts";

/** What a leader asks of scheduled jobs, answered from memory. */
export const memoryJobRows = (transact: Transact<DeploymentTables>): JobRows => ({
  ...{ runs: memoryJobRunRows(transact), clock: memoryJobClockRows(transact), pauses: memoryJobPauseRows(transact) },
});

const waiting: readonly JobRun["status"][] = ["queued", "waiting"];
const running: readonly JobRun["status"][] = ["running", "cancel_requested"];

function memoryJobRunRows(transact: Transact<DeploymentTables>): JobRunRows {
  const fenced = <T>(epoch: bigint, work: (tx: Tx) => T): Promise<T> => inFencedMemory(transact, epoch, work);
  const set = (epoch: bigint, id: string, from: readonly JobRun["status"][], change: (tx: Tx) => Partial<JobRun>) =>
    fenced(epoch, (tx) => void Object.assign(runIn(tx, id, from) ?? {}, change(tx)));
  return {
    open: () =>
      transact((tx) => ({ now: tx.now, runs: [...tx.tables.jobs.open.values()].map((run) => openRun(tx, run)) })),
    attempts: (runIds) =>
      transact(({ tables }) => runIds.flatMap((id) => tables.jobs.attemptsOf.get(id) ?? []).map((row) => ({ ...row }))),
    nodes: memorySchedulerRows(transact).nodes,
    requests: (runs) =>
      transact(({ tables }) =>
        runs.flatMap(({ id, deploymentId }) => {
          const deployment = tables.deployments.get(deploymentId);
          if (deployment === undefined) return [];
          const of = {
            id,
            ownerId: id,
            projectId: deployment.projectId,
            kind: "serve",
            specHash: deploymentId,
          } as const;
          const anywhere = { platform: null, nodeSelector: {}, pinnedTo: null, diskMb: 0, hasDockerfile: false };
          return [{ ...of, ...anywhere, ...reservedOf(deployment) }];
        }),
      ),
    reserved: (deploymentId) =>
      transact(({ tables }) => {
        const deployment = tables.deployments.get(deploymentId);
        return deployment && reservedOf(deployment);
      }),

    end: (epoch, { id: runId, jobId }, ending) =>
      fenced(epoch, (tx) => endRun(tx, { jobId, runId, from: waiting }, ending)),
    ask: (epoch, { id }, reason) =>
      set(epoch, id, ["running"], ({ now }) => ({ status: "cancel_requested", reason, cancel_requested_at: now })),
    note: (epoch, { id }, said) => set(epoch, id, waiting, () => ({ status: "waiting", ...said })),
    move: (epoch, { id }, deployment_id) => set(epoch, id, waiting, () => ({ deployment_id })),
    makeAttempt: (epoch, of, nodeId) => fenced(epoch, (tx) => makeAttempt(tx, of, nodeId)),
    markRunning: (epoch, { id }, attemptId) => fenced(epoch, (tx) => markRunning(tx, id, attemptId)),
    conclude: (epoch, of, what) => fenced(epoch, (tx) => conclude(tx, of, what)),
  };
}

const reservedOf = ({ memoryMb }: { memoryMb: number }) => ({ memoryMb, cpuMillicores: 10, pidsLimit: 64 });

function openRun(tx: Tx, run: JobRun): OpenRun {
  const job = tx.tables.jobs.jobs.get(run.job_id);
  if (job === undefined) throw new Error(`there is no job ${run.job_id}`);
  return {
    ...{ id: run.id, jobId: run.job_id, status: run.status, reason: run.reason, trigger: run.trigger },
    ...{ attemptCount: run.attempt_count, createdAt: run.created_at, retryAt: run.retry_at },
    deploymentId: run.deployment_id,
    job: {
      ...{ deploymentId: job.deployment_id, retries: job.retries, isRetired: job.retired_at !== null },
      pause: tx.tables.suspended.has(job.project_id) ? "suspended" : job.pause_reason,
    },
    projectGone: false,
    hasImage: hasImage(tx, run.deployment_id),
  };
}

function makeAttempt(
  tx: Tx,
  { id, deploymentId }: Parameters<JobRunRows["makeAttempt"]>[1],
  nodeId: string,
): Run | null {
  const run = runIn(tx, id, waiting);
  const made = tx.tables.jobs.attemptsOf.get(id) ?? [];
  if (run?.deployment_id !== deploymentId || made.some(({ outcome }) => outcome === null)) return null;
  const attempt = tx.tables.jobs.insertAttempt({
    ...{ id: tx.tables.id("a"), project_id: run.project_id, owner_kind: "job", owner_id: id, kind: "job" },
    ...{ number: made.length + 1, node_id: nodeId, started_at: null, finished_at: null, exit_code: null },
    ...{ outcome: null, message: null },
  });
  return { ...attempt };
}

function markRunning(tx: Tx, id: string, attemptId: string): boolean {
  const run = runIn(tx, id, [...waiting, "running"]);
  if (run === null) return false;
  const attempt = tx.tables.jobs.attempts.get(attemptId);
  if (attempt?.outcome !== null) throw new Error(`attempt ${attemptId} is over, and was about to be granted`);
  Object.assign(run, {
    ...{ status: "running", reason: null, message: null, retry_at: null, started_at: run.started_at ?? tx.now },
    attempt_count: run.attempt_count + (run.status === "running" ? 0 : 1),
  });
  attempt.started_at ??= tx.now;
  return true;
}

function conclude(
  tx: Tx,
  { id, jobId, status }: Parameters<JobRunRows["conclude"]>[1],
  { attempt, end, after }: Parameters<JobRunRows["conclude"]>[2],
): boolean {
  const run = runIn(tx, id, [status]);
  if (run === null || !tx.tables.jobs.jobs.has(jobId)) return false;
  if ("ends" in after) {
    endRun(tx, { jobId, runId: id, from: [status] }, after.ends);
    const isTakenBack = end.outcome === "not_started" && running.includes(status);
    if (isTakenBack) run.attempt_count = Math.max(run.attempt_count - 1, 0);
    if (isTakenBack && run.attempt_count === 0) run.started_at = null;
  } else {
    const retry_at = new Date(tx.now.getTime() + after.againMs);
    const { reason, message, begun: attempt_count } = after;
    Object.assign(run, { status: "waiting", reason, message, attempt_count, retry_at });
    if (attempt_count === 0) run.started_at = null;
  }
  const row = attempt === null ? undefined : tx.tables.jobs.attempts.get(attempt.id);
  if (row?.outcome !== null) return true;
  const said = attempt?.run;
  Object.assign(row, {
    ...{ outcome: end.outcome, message: end.message, exit_code: end.exitCode },
    ...(said?.startedAt && { started_at: new Date(said.startedAt) }),
    ...(end.outcome === "not_started" && { started_at: null }),
    finished_at: said?.finishedAt ? new Date(said.finishedAt) : tx.now,
  });
  return true;
}

const memoryJobClockRows = (transact: Transact<DeploymentTables>): JobClockRows => ({
  moment: () =>
    transact(({ tables, now }) => {
      let firstDueAt: Date | null = null;
      for (const { next_fire_at: at } of tables.jobs.jobs.values())
        if (at !== null && (firstDueAt === null || at < firstDueAt)) firstDueAt = at;
      return { now, firstDueAt };
    }),
  beginDue: (epoch, now, limit) =>
    inFencedMemory(transact, epoch, (tx: Tx) => {
      const due = [...tx.tables.jobs.jobs.values()]
        .flatMap((job) => (job.next_fire_at !== null && job.next_fire_at <= now ? [{ job, at: job.next_fire_at }] : []))
        .sort((a, b) => a.at.getTime() - b.at.getTime() || (a.job.id < b.job.id ? -1 : 1))
        .slice(0, limit);
      const steps = due.map(({ job, at: next_fire_at }) => ({ job, step: clockStep({ ...job, next_fire_at }, now) }));
      const missed = steps.flatMap(({ job, step }) => (step.missed === null ? [] : [{ job, ...step.missed }]));
      skipMissed(tx, missed);
      const begun = beginRuns(
        tx,
        steps.flatMap(({ job, step: { run: fireAt } }) =>
          fireAt === null ? [] : [{ job, trigger: "schedule" as const, fireAt, requestedBy: null }],
        ),
      );
      for (const { job, step } of steps)
        Object.assign(job, { last_fire_at: step.lastFireAt, next_fire_at: step.nextFireAt });
      return {
        taken: due.length,
        runs: begun.filter((run) => run !== null).length,
        missed: missed.reduce((sum, { count }) => sum + count, 0),
        last: steps.flatMap(({ job, step }) => (step.nextFireAt === null ? [{ ...job }] : [])),
      };
    }),
});

const memoryJobPauseRows = (transact: Transact<DeploymentTables>): JobPauseRows => ({
  list: () =>
    transact((tx) =>
      [
        ...Map.groupBy(
          [...tx.tables.jobs.jobs.values()].filter(({ retired_at }) => retired_at === null),
          ({ project_id }) => project_id,
        ),
      ].map(([projectId, jobs]) => {
        const { now: _, ...situation } = situationOf(tx, projectId);
        const paused = (by: string) => jobs.filter(({ pause_reason }) => pause_reason === by).length;
        return {
          ...{ projectId, jobs: jobs.length, ofProduction: jobs.length, ...situation },
          ...{ suspended: paused("suspended"), stopped: paused("stopped"), plan: paused("plan") },
        };
      }),
    ),
  settle: (projectId) => transact((tx) => settleJobs(tx, projectId)),
});
