import type { Clock } from "@svc/runtime/clock";
import { sql, type UpdateObject } from "kysely";
import { inFencedTransaction } from "../../../fleet/cluster/fenced.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { commandRequest } from "../../../fleet/scheduler/commands.ts";
import type { Attempts } from "../../../fleet/tasks/attempts.ts";
import { insertRun } from "../../../fleet/tasks/run-rows.ts";
import { cancelRun } from "../../../fleet/tasks/runs.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Database, JobRun, Run } from "../../../stores/db/tables.ts";
import type { Etcd, Leadership } from "../../../stores/etcd/index.ts";
import { endRun, lockJob } from "./end.ts";
import type { ReadRuns } from "./read.ts";
import type { JobRunFacts, JobRunStep } from "./steps.ts";

export interface JobRunDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Pick<Leadership, "epoch" | "txn">;
  log: Log;
}

type Step = Exclude<JobRunStep, { do: "place" }> | { do: "make"; nodeId: string };

type Deps = JobRunDeps & { attempts: Attempts };

const waiting: readonly JobRun["status"][] = ["queued", "waiting"];
const running: readonly JobRun["status"][] = ["running", "cancel_requested"];

/** Does one step of one run, if it is what it was decided on. */
export async function applyStep(deps: Deps, read: ReadRuns, facts: JobRunFacts, step: Step): Promise<void> {
  const { attempts, clock, etcd, log } = deps;
  const fenced = <T>(work: (tx: Db) => Promise<T>) => inFencedTransaction(deps.db, deps.leadership.epoch, work);
  const at = { jobId: facts.jobId, runId: facts.id };
  const set = (from: readonly JobRun["status"][], change: UpdateObject<Database, "job_run">) =>
    fenced((tx) => setRun(tx, facts, from, change));
  const tell = (to: string, why: string | null) => log.info({ ...at, from: facts.status, to, why }, "job run");
  switch (step.do) {
    case "wait":
      return;
    case "end": {
      const ended = await fenced((tx) => endRun(tx, { ...at, from: waiting }, step.ending));
      if (ended !== null) tell(ended.status, ended.reason);
      return;
    }
    case "ask":
      await set(["running"], {
        ...{ status: "cancel_requested", reason: step.reason, cancel_requested_at: sql<Date>`now()` },
      });
      return;
    case "note":
      if (facts.status === "waiting" && facts.reason === step.said.reason) return;
      await set(waiting, { status: "waiting", ...step.said });
      return;
    case "move":
      await set(waiting, { deployment_id: step.deploymentId });
      return;
    case "make": {
      const row = await fenced((tx) => makeAttempt(tx, facts, step.nodeId));
      if (row !== null) await attempts.offer(row, await reservedFor(deps.db, facts));
      return;
    }
    case "offer": {
      const row = read.rows.get(step.attempt.id);
      if (row !== undefined) await attempts.offer(row, await reservedFor(deps.db, facts));
      return;
    }
    case "withdraw": {
      const seen = read.seen.get(step.attempt.id);
      if (seen !== undefined) await attempts.withdraw(seen, step.detail);
      return;
    }
    case "stop":
      await cancelRun(etcd, step.attempt.nodeId, step.attempt.id, clock.now());
      return;
    case "grant": {
      const seen = read.seen.get(step.attempt.id);
      // Postgres first: what is canceled after this is canceled as something that runs, and what was before is not granted.
      if (seen === undefined || !(await fenced((tx) => markRunning(tx, facts, step.attempt.id)))) return;
      if (facts.status !== "running") tell("running", null);
      if (seen.run.state === "accepted") await attempts.grant(seen);
      return;
    }
    case "conclude": {
      const isDone = await fenced((tx) => writeOutcome(tx, facts, step));
      if (!isDone) return;
      tell("ends" in step.after ? step.after.ends.status : "waiting", step.end.outcome);
      const seen = step.attempt && read.seen.get(step.attempt.id);
      // Whoever owns the node's stream has told the agent, and tells it again should it ask.
      if (seen) await attempts.forget(seen);
    }
  }
}

async function setRun(
  db: Db,
  { id }: Pick<JobRunFacts, "id">,
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
async function makeAttempt(tx: Db, { id, deploymentId }: JobRunFacts, nodeId: string): Promise<Run | null> {
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

async function reservedFor(db: Db, { deploymentId }: JobRunFacts) {
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

/** It counts from now on, and once: false when it is not to run any more. */
async function markRunning(tx: Db, { id }: JobRunFacts, attemptId: string): Promise<boolean> {
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

/** How an attempt went, and what becomes of its run, in one: an outcome is written down once. */
async function writeOutcome(
  tx: Db,
  { id, jobId, status }: JobRunFacts,
  { attempt, end, after }: Extract<JobRunStep, { do: "conclude" }>,
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

const takeBack = (tx: Db, id: string) =>
  tx
    .updateTable("job_run")
    .set({ attempt_count: sql<number>`greatest(attempt_count - 1, 0)` })
    .where("id", "=", id)
    .execute();
