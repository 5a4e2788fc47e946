import { sql } from "kysely";
import { jobRunTopic } from "../../../fleet/cluster/topics.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun, Project } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { beginRun, type NewRun } from "./begin.ts";
import { endRun } from "./end.ts";
import { cancelOf, runRefusal } from "./rules.ts";
import { lockJobToRun, lockRun } from "./store.ts";

/**
 * Somebody wants a run of a job now, also while it is not scheduled. One that waits already is what they get. The project's row
 * is held by the caller. @throws Refused
 */
export async function requestRun(
  tx: Db,
  project: Pick<Project, "id" | "owner_id" | "suspended_at">,
  jobId: string,
  requestedBy: NewRun["requestedBy"],
): Promise<{ job: Job; run: JobRun }> {
  const found = await lockJobToRun(tx, project.id, jobId);
  if (found === null) throw new Refused("NOT_FOUND");
  const { job, deployment } = found;
  const state = await findChannelState(tx, job);
  const plan = await planOfUser(tx, project.owner_id);
  const refusal = runRefusal({
    isSuspended: project.suspended_at !== null,
    maxScheduledJobs: plan.max_scheduled_jobs,
    job,
    served: state?.deployment_id ? { deploymentId: state.deployment_id, isStopped: state.stopped } : null,
    hasImage: deployment !== null && deployment.artifact_digest !== null && deployment.artifact_removed_at === null,
  });
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
  const run = await beginRun(tx, job, { trigger: "manual", fireAt: null, requestedBy });
  if (run === null) throw new Error("a run that nobody scheduled has no instant that could be taken");
  return { job, run };
}

/** Somebody wants the end of a run. Says what that changed; null: nothing. @throws Refused when there is no such run */
export async function requestCancel(tx: Db, projectId: string, runId: string): Promise<"end" | "ask" | null> {
  const run = await lockRun(tx, projectId, runId);
  if (run === null) throw new Refused("NOT_FOUND");
  const change = cancelOf(run.status);
  if (change === "end") {
    const ending = { status: "canceled", reason: null, message: null } as const;
    await endRun(tx, { jobId: run.job_id, runId }, ending);
    return "end";
  }
  if (change !== "ask") return null;
  const asked = { status: "cancel_requested" as const, cancel_requested_at: sql<Date>`now()` };
  await tx.updateTable("job_run").set(asked).where("id", "=", runId).execute();
  await notify(tx, jobRunTopic);
  return "ask";
}
