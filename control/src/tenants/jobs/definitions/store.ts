import type { Channel } from "@svc/proto";
import { sql } from "kysely";
import { jobRunTopic, jobTopic } from "../../../fleet/cluster/topics.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job } from "../../../stores/db/tables.ts";
import type { ShownRun } from "../runs/view.ts";
import type { Definition, PauseCounts, Settled, Situation } from "./rules.ts";

/** A channel of a project, or the preview of one pull request. */
export interface JobPlace {
  project_id: string;
  channel: Channel;
  pr_number: number | null;
}

/**
 * All jobs of projects that are not retired; nobody changes them until the transaction ends. Whoever changes more than one
 * begins with this, so that nobody waits for one another.
 */
export const lockLiveJobs = (tx: Db, projectIds: readonly string[]): Promise<Job[]> =>
  tx
    .selectFrom("job")
    .selectAll()
    .where("project_id", "in", projectIds)
    .where("retired_at", "is", null)
    .orderBy("id")
    .forUpdate()
    .execute();

/** Those of these names that a channel had once: of all others there may be many. Needs the channel's state locked. */
export const lockRetiredJobs = async (tx: Db, place: JobPlace, names: readonly string[]): Promise<Job[]> =>
  names.length === 0
    ? []
    : tx
        .selectFrom("job")
        .selectAll()
        .where("project_id", "=", place.project_id)
        .where("channel", "=", place.channel)
        .where("pr_number", "=", place.pr_number ?? 0)
        .where("name", "in", names)
        .where("retired_at", "is not", null)
        .orderBy("id")
        .forUpdate()
        .execute();

const columnsOf = ({ enabled, timeoutSeconds, schedule, timezone, retries, overlap }: Definition) => ({
  ...{ schedule, timezone, retries, overlap },
  timeout_seconds: timeoutSeconds,
  source_enabled: enabled,
});

export async function insertJobs(
  tx: Db,
  { project_id, channel, pr_number }: JobPlace,
  deploymentId: string,
  definitions: readonly Definition[],
): Promise<void> {
  if (definitions.length === 0) return;
  await tx
    .insertInto("job")
    .values(
      definitions.map((definition) => ({
        ...{ project_id, channel, pr_number: pr_number ?? 0, name: definition.name, deployment_id: deploymentId },
        ...columnsOf(definition),
      })),
    )
    .execute();
}

/** What its owner said of it stays. */
export async function updateJob(
  tx: Db,
  id: string,
  deploymentId: string,
  definition: Definition,
  { countsAnew }: { countsAnew: boolean },
): Promise<void> {
  await tx
    .updateTable("job")
    .set({
      ...columnsOf(definition),
      deployment_id: deploymentId,
      retired_at: null,
      updated_at: sql<Date>`now()`,
      ...(countsAnew && { next_fire_at: null }),
    })
    .where("id", "=", id)
    .execute();
}

/** They keep their rows, and with them their history. */
export async function retireJobs(tx: Db, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable("job")
    .set({ retired_at: sql<Date>`now()`, next_fire_at: null, pause_reason: null, updated_at: sql<Date>`now()` })
    .where("id", "in", ids)
    .execute();
}

/** Null when the project is gone, or going. */
export async function readSituation(db: Db, projectId: string): Promise<Situation | null> {
  const { rows } = await sql<Situation>`
    select clock_timestamp() as now, project.suspended_at is not null as "isSuspended",
      coalesce(state.stopped, false) as "isStopped", plan.max_scheduled_jobs as "maxScheduledJobs"
    from project ${whatPauses} where project.id = ${projectId} and project.deleting_at is null`.execute(db);
  return rows[0] ?? null;
}

/** Of a `project`: whether its production is stopped, and what the plan of its owner allows. */
const whatPauses = sql`
  left join account on account.user_id = project.owner_id
  join plan on plan.id = coalesce(account.plan_id, (select id from plan where is_default))
  left join channel_state state on state.project_id = project.id and state.channel = 'production' and state.pr_number = 0`;

export async function writeSettled(tx: Db, settled: readonly Settled[]): Promise<void> {
  if (settled.length === 0) return;
  await sql`
    update job set pause_reason = new.pause_reason, next_fire_at = new.next_fire_at, updated_at = now()
    from unnest(${settled.map(({ id }) => id)}::uuid[], ${settled.map((each) => each.pause_reason)}::text[],
      ${settled.map((each) => each.next_fire_at)}::timestamptz[]) as new (id, pause_reason, next_fire_at)
    where job.id = new.id`.execute(tx);
}

export interface ProjectPauses extends PauseCounts, Omit<Situation, "now"> {
  projectId: string;
}

/** Every project with jobs that are not retired. */
export async function listPauses(db: Db): Promise<ProjectPauses[]> {
  const { rows } = await sql<ProjectPauses>`
    with counted as (
      select project_id, count(*)::int as jobs,
        count(*) filter (where channel = 'production')::int as "ofProduction",
        count(*) filter (where pause_reason = 'suspended')::int as suspended,
        count(*) filter (where pause_reason = 'stopped')::int as stopped,
        count(*) filter (where pause_reason = 'plan')::int as plan
      from job where retired_at is null group by project_id)
    select counted.project_id as "projectId", jobs, "ofProduction", suspended, counted.stopped, counted.plan,
      project.suspended_at is not null as "isSuspended", coalesce(state.stopped, false) as "isStopped",
      plan.max_scheduled_jobs as "maxScheduledJobs"
    from counted join project on project.id = counted.project_id and project.deleting_at is null ${whatPauses}`.execute(
    db,
  );
  return rows;
}

/** Has whoever carries out the runs look at those that are not over, after the transaction: they may move, or be skipped. */
export async function wakeRuns(tx: Db, jobIds: readonly string[]): Promise<void> {
  if (jobIds.length > 0) await notify(tx, jobRunTopic);
}

/** Tells the leader's clock that some job is to fire at another time. */
export const announceJobs = (tx: Db): Promise<void> => notify(tx, jobTopic);

/** Jobs of a channel that are not retired, by name. */
export const listJobs = (db: Db, place: JobPlace): Promise<Job[]> =>
  db
    .selectFrom("job")
    .selectAll()
    .where("project_id", "=", place.project_id)
    .where("channel", "=", place.channel)
    .where("pr_number", "=", place.pr_number ?? 0)
    .where("retired_at", "is", null)
    .orderBy("name")
    .execute();

/** How many jobs of a project the plan has to have room for. */
export async function countJobs(db: Db, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom("job")
    .select((job) => job.fn.countAll<number>().as("count"))
    .where("project_id", "=", projectId)
    .where("retired_at", "is", null)
    .executeTakeFirstOrThrow();
  return count;
}

/** The newest run of each job that has any. */
export async function listLastRuns(db: Db, jobIds: readonly string[]): Promise<Map<string, ShownRun>> {
  const { rows } = await sql<ShownRun>`
    select newest.*, attempt.exit_code from unnest(${jobIds}::uuid[]) as wanted (id)
    join lateral (select * from job_run where job_id = wanted.id order by number desc limit 1) newest on true
    left join lateral (
      select exit_code from run where owner_kind = 'job' and owner_id = newest.id and finished_at is not null
      order by number desc limit 1) attempt on true`.execute(db);
  return new Map(rows.map((run) => [run.job_id, run]));
}

/** What its owner says of a job goes for all deployments to come. */
export async function setUserEnabled(tx: Db, jobId: string, enabled: boolean): Promise<void> {
  await tx
    .updateTable("job")
    .set({ user_enabled: enabled, updated_at: sql<Date>`now()` })
    .where("id", "=", jobId)
    .execute();
}
