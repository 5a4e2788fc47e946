import { jobRunTopic } from "../../../../fleet/cluster/topics.ts";
import type { Job, JobRun } from "../../../../stores/db/tables.ts";
import { Refused } from "../../../../stores/refused.ts";
import type { Tx } from "../../../deployments/testing/memory/tables.ts";
import type { NewRun } from "../../runs/begin.ts";
import { cancelOf, runRefusal } from "../../runs/rules.ts";
import { beginRuns, endRun } from "./begin.ts";
import { hasImage } from "./tables.ts";

/** As `requestRun` of `runs/request.ts`. @throws Refused */
export function requestRun(
  tx: Tx,
  projectId: string,
  jobId: string,
  requestedBy: NewRun["requestedBy"],
): { job: Job; run: JobRun } {
  const { tables } = tx;
  const job = tables.jobs.jobs.get(jobId);
  if (job?.project_id !== projectId) throw new Refused("NOT_FOUND");
  const site = tables.siteOf(projectId);
  const refusal = runRefusal({
    ...{ isSuspended: tables.suspended.has(projectId), maxScheduledJobs: tables.jobs.maxScheduledJobs, job },
    served: site?.deploymentId ? { deploymentId: site.deploymentId, isStopped: site.stopped } : null,
    hasImage: hasImage(tx, job.deployment_id),
  });
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
  const [run] = beginRuns(tx, [{ job, trigger: "manual", fireAt: null, requestedBy }]);
  if (run == null) throw new Error("a run that nobody scheduled has no instant that could be taken");
  return { job: { ...job }, run };
}

/** As `requestCancel` there. @throws Refused */
export function requestCancel(tx: Tx, projectId: string, runId: string): "end" | "ask" | null {
  const { tables, now, notify } = tx;
  const run = tables.jobs.runs.get(runId);
  if (run?.project_id !== projectId) throw new Refused("NOT_FOUND");
  const change = cancelOf(run.status);
  if (change === "end") {
    endRun(tx, { jobId: run.job_id, runId }, { status: "canceled", reason: null, message: null });
    return "end";
  }
  if (change !== "ask") return null;
  Object.assign(run, { status: "cancel_requested", cancel_requested_at: now });
  notify(jobRunTopic);
  return "ask";
}
