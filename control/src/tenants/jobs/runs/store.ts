import type { Channel, JobRunStatus } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import type { ShownAttempt, ShownRun } from "./view.ts";

/** A run with its job, as far as people are told of that. */
export type ListedRun = ShownRun & Pick<Job, "name" | "channel" | "pr_number">;

const withJob = (db: Db, projectId: string) =>
  db
    .selectFrom("job_run")
    .innerJoin("job", "job.id", "job_run.job_id")
    .selectAll("job_run")
    .select(["job.name", "job.channel", "job.pr_number"])
    .select((of) =>
      of
        .selectFrom("run")
        .select("run.exit_code")
        .whereRef("run.owner_id", "=", "job_run.id")
        .where("run.kind", "=", "job")
        .where("run.finished_at", "is not", null)
        .orderBy("run.number", "desc")
        .limit(1)
        .as("exit_code"),
    )
    .where("job_run.project_id", "=", projectId);

export interface RunFilter {
  channel?: Channel | undefined;
  /** Exactly that; without it, of previews only the stable one. */
  deployment?: string | undefined;
  status?: JobRunStatus | undefined;
  name?: string | undefined;
  /** Only those with a lower number: where the page before this one ended. */
  before?: number | undefined;
}

/** Runs of a project, newest first; at most `count`. */
export const listRuns = (
  db: Db,
  projectId: string,
  { channel, deployment, status, name, before }: RunFilter,
  count: number,
): Promise<ListedRun[]> =>
  withJob(db, projectId)
    .$if(channel !== undefined, (query) => query.where("job.channel", "=", channel ?? "production"))
    .$if(channel === "preview" && deployment === undefined, (query) => query.where("job.pr_number", "=", 0))
    .$if(deployment !== undefined, (query) => query.where("job_run.deployment_id", "=", deployment ?? ""))
    .$if(status !== undefined, (query) => query.where("job_run.status", "=", status ?? "queued"))
    .$if(name !== undefined, (query) => query.where("job.name", "=", name ?? ""))
    .$if(before !== undefined, (query) => query.where("job_run.number", "<", before ?? 0))
    .orderBy("job_run.number", "desc")
    .limit(count)
    .execute();

export async function findListedRun(db: Db, projectId: string, runId: string): Promise<ListedRun | null> {
  return (await withJob(db, projectId).where("job_run.id", "=", runId).executeTakeFirst()) ?? null;
}

/** Oldest first. */
export async function listShownAttempts(db: Db, runId: string): Promise<ShownAttempt[]> {
  const { rows } = await sql<ShownAttempt>`
    select run.*, coalesce(last."offset" + octet_length(last.data), 0)::int as log_bytes from run
    left join lateral (
      select "offset", data from log_chunk where stream_id = run.id::text order by "offset" desc limit 1) last on true
    where owner_id = ${runId} and kind = 'job' order by number`.execute(db);
  return rows;
}

/** Locks a run of a project, and its job before it; null when there is none. */
export async function lockRun(tx: Db, projectId: string, runId: string): Promise<JobRun | null> {
  const job = await tx
    .selectFrom("job")
    .select("id")
    .where("id", "=", (of) => of.selectFrom("job_run").select("job_id").where("id", "=", runId))
    .where("project_id", "=", projectId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (job === undefined) return null;
  const run = await tx.selectFrom("job_run").selectAll().where("id", "=", runId).forNoKeyUpdate().executeTakeFirst();
  return run ?? null;
}

/** What decides whether a job of a project can be run by hand, with its row locked. */
export async function lockJobToRun(tx: Db, projectId: string, jobId: string) {
  const job = await tx
    .selectFrom("job")
    .selectAll()
    .where("id", "=", jobId)
    .where("project_id", "=", projectId)
    .forUpdate()
    .executeTakeFirst();
  if (job === undefined) return null;
  const deployment = await tx
    .selectFrom("deployment")
    .select(["artifact_kind", "artifact_digest", "artifact_removed_at"])
    .where("id", "=", job.deployment_id)
    .executeTakeFirst();
  return { job, deployment: deployment ?? null };
}
