import { openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import { jobRunTopic } from "../../../fleet/cluster/topics.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import { type NamedJob, tellOfEnd } from "../alert.ts";
import { endRun } from "./end.ts";
import { beginOf, type Said, said } from "./rules.ts";

export interface NewRun {
  trigger: JobRun["trigger"];
  /** The instant of the schedule; null for a manual run. */
  fireAt: Date | null;
  requestedBy: { userId: string; tokenId: string | null } | null;
}

type OfJob = Pick<Job, "id" | "project_id" | "deployment_id" | "overlap">;

/**
 * Begins a run of each of these jobs, whose rows the caller has locked; what runs in it is what the job's `deployment_id` names.
 * Null for one of which there is a run of that instant already. Of a manual run that would wait behind one that waits
 * already, it returns that one.
 */
export async function beginRuns(tx: Db, wanted: readonly (NewRun & { job: OfJob })[]): Promise<(JobRun | null)[]> {
  if (wanted.length === 0) return [];
  const ids = wanted.map(({ job }) => job.id);
  const openOf = Map.groupBy(await listOpen(tx, ids), ({ job_id }) => job_id);
  const decided = wanted.map((each) => {
    const open = openOf.get(each.job.id) ?? [];
    const others = open.map((run) => ({ ...run, attemptCount: run.attempt_count }));
    return { ...each, open, begin: beginOf({ overlap: each.job.overlap, trigger: each.trigger }, others) };
  });
  for (const { job, begin } of decided) {
    if (begin.do !== "replace") continue;
    const ending = { status: "skipped", ...said("capacity") } as const;
    await endRun(tx, { jobId: job.id, runId: begin.runId, from: ["waiting"] }, ending);
  }
  const rows = decided.flatMap(({ job, begin, trigger, fireAt, requestedBy }): NewRow[] => {
    if (begin.do === "answer") return [];
    const first = begin.do === "insert" ? { status: begin.status, ...begin.said } : { status: "queued" as const };
    const by = { requested_by: requestedBy?.userId ?? null, requested_by_token: requestedBy?.tokenId ?? null };
    return [{ job, trigger, fire_at: fireAt, ...first, ...by }];
  });
  const inserted = await insertJobRuns(tx, rows);
  if (inserted.size > 0) await notify(tx, jobRunTopic);
  return decided.map(({ job, begin, open }) =>
    begin.do === "answer" ? (open.find(({ id }) => id === begin.runId) ?? null) : (inserted.get(job.id) ?? null),
  );
}

/** The same of one job. */
export async function beginRun(tx: Db, job: OfJob, run: NewRun): Promise<JobRun | null> {
  const [begun = null] = await beginRuns(tx, [{ job, ...run }]);
  return begun;
}

/** Oldest first. */
const listOpen = (tx: Db, jobIds: readonly string[]): Promise<JobRun[]> =>
  tx
    .selectFrom("job_run")
    .selectAll()
    .where("job_id", "=", sql<string>`any(${jobIds}::uuid[])`)
    .where("status", "in", [...openJobRunStatuses])
    .orderBy("number")
    .execute();

/** Writes down that nobody was there for `count` instants of the schedule of each, the newest of which is `fireAt`. */
export async function skipMissed(
  tx: Db,
  missed: readonly { job: Omit<OfJob, "overlap"> & NamedJob; fireAt: Date; count: number }[],
): Promise<void> {
  const row = { trigger: "schedule", status: "skipped", ...said("missed") } as const;
  const inserted = await insertJobRuns(
    tx,
    missed.map(({ job, fireAt, count }) => ({ ...row, job, fire_at: fireAt, missed: count })),
  );
  for (const { job } of missed) {
    const run = inserted.get(job.id);
    if (run !== undefined) await tellOfEnd(tx, job, run);
  }
}

type NewRow = Partial<Pick<JobRun, "requested_by" | "requested_by_token" | "missed">> &
  Partial<Said> & {
    job: Omit<OfJob, "overlap">;
    trigger: JobRun["trigger"];
    fire_at: Date | null;
    status: "queued" | "waiting" | "skipped";
  };

/** By job, without those of which there is a run of that instant already. What is skipped is over at once. */
async function insertJobRuns(tx: Db, rows: readonly NewRow[]): Promise<Map<string, JobRun>> {
  if (rows.length === 0) return new Map();
  const inserted = await tx
    .insertInto("job_run")
    .values((of) =>
      rows.map(({ job: { id: job_id, project_id, deployment_id }, ...row }) => ({
        ...{ job_id, project_id, deployment_id, ...row },
        ...(row.status === "skipped" && { finished_at: of.fn<Date>("now") }),
      })),
    )
    .onConflict((conflict) => conflict.columns(["job_id", "fire_at"]).doNothing())
    .returningAll()
    .execute();
  return new Map(inserted.map((run) => [run.job_id, run]));
}
