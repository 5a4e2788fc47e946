import { channelSubject, clearAlert, dropAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Job, JobRun } from "../../stores/db/tables.ts";

/** A job as its owner is told of it. */
export type NamedJob = Pick<Job, "project_id" | "channel" | "pr_number" | "name">;

/** Jobs of two channels may have one name: that of production stands alone. */
const subjectOf = ({ channel, pr_number, name }: NamedJob): string =>
  channel === "production" ? name : `${channelSubject(channel, pr_number)}/${name}`;

/** Says what the end of a run tells of its job. One that was canceled, or left out as its manifest wants it, tells nothing. */
export async function tellOfEnd(
  tx: Db,
  job: NamedJob,
  { status, reason, message }: Pick<JobRun, "status" | "reason" | "message">,
): Promise<void> {
  const about = { projectId: job.project_id, subject: subjectOf(job) };
  const detail = message ?? "";
  if (status === "skipped") {
    if (reason === "missed" || reason === "capacity") await raiseAlert(tx, { ...about, event: "jobMissed", detail });
    return;
  }
  if (status === "canceled") return;
  await clearAlert(tx, { ...about, event: "jobMissed" });
  if (status === "succeeded") await clearAlert(tx, { ...about, event: "jobFailed" });
  else await raiseAlert(tx, { ...about, event: "jobFailed", detail });
}

/** Of jobs that are no more nobody is told any more. */
export async function dropAlertsOf(tx: Db, jobs: readonly NamedJob[]): Promise<void> {
  for (const job of jobs)
    for (const event of ["jobFailed", "jobMissed"] as const)
      await dropAlert(tx, { projectId: job.project_id, event, subject: subjectOf(job) });
}
