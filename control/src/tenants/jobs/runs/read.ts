import { openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import type { SeenRun } from "../../../fleet/tasks/attempts.ts";
import { findRun } from "../../../fleet/tasks/runs.ts";
import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Run } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { Outcome } from "./rules.ts";
import type { JobRunFacts, OpenAttempt } from "./steps.ts";

export interface ReadRuns {
  runs: JobRunFacts[];
  /** Records of attempts that nobody waits for: their run is over, or their outcome is written down. */
  unwanted: SeenRun[];
  /** The record of each open attempt as it was read, by the attempt's id. */
  seen: ReadonlyMap<string, SeenRun>;
  /** Rows of open attempts, by id. */
  rows: ReadonlyMap<string, Run>;
}

/** Everything that the next steps of all runs rest on which are not over, read at this moment. */
export async function readOpenRuns({ db, etcd, fleet }: { db: Db; etcd: Etcd; fleet: Fleet }): Promise<ReadRuns> {
  // The records first: an attempt has its row before it has one, so that none of them is taken for unwanted that is new.
  const records = fleet.runs().filter(({ run }) => run.kind === "job");
  const [now, rows] = await Promise.all([databaseClock(db), listOpen(db)]);
  const ids = rows.map(({ id }) => id);
  const attempts = ids.length === 0 ? [] : await listAttempts(db, ids);
  const attemptsOf = Map.groupBy(attempts, ({ owner_id }) => owner_id);
  const seen = new Map<string, SeenRun>(records.map((each) => [each.run.attemptId, each]));
  const open = new Map(attempts.filter(({ outcome }) => outcome === null).map((row) => [row.id, row]));
  for (const row of open.values()) {
    if (seen.has(row.id)) continue;
    // The view may be behind: absence is asked of etcd itself.
    const found = await findRun({ etcd, fleet }, row.node_id, row.id);
    if (found !== null) seen.set(row.id, found);
  }
  const firsts = new Map<string, string>();
  for (const { id, job_id } of rows) if (!firsts.has(job_id)) firsts.set(job_id, id);
  // Waits are counted from times that the database gave, and this replica's clock may differ from its.
  const aheadMs = fleet.now().getTime() - now.getTime();
  const runs = rows.map((row): JobRunFacts => {
    const own = attemptsOf.get(row.id) ?? [];
    const began = own.findLastIndex(({ outcome }) => outcome !== null && outcome !== "not_started");
    const last = own[began];
    const current = own.find(({ outcome }) => outcome === null);
    return {
      ...{ now, id: row.id, jobId: row.job_id, status: row.status, reason: row.reason, trigger: row.trigger },
      ...{ attemptCount: row.attempt_count, createdAt: row.created_at, retryAt: row.retry_at },
      deploymentId: row.deployment_id,
      isFirst: firsts.get(row.job_id) === row.id,
      job: {
        ...{ deploymentId: row.job_deployment_id, retries: row.retries, isRetired: row.retired_at !== null },
        pause: row.suspended_at === null ? row.pause_reason : "suspended",
      },
      projectGone: row.deleting_at !== null,
      hasImage: row.artifact_digest !== null && row.artifact_removed_at === null,
      attempt: current === undefined ? null : openAttempt(current, seen.get(current.id)?.run ?? null, fleet, aheadMs),
      last: last === undefined ? null : { outcome: last.outcome as Outcome, message: last.message },
      neverBegan: own.slice(began + 1).filter(({ outcome }) => outcome === "not_started").length,
    };
  });
  const unwanted = records.filter(({ run }) => !open.has(run.attemptId));
  return { runs, unwanted, seen, rows: open };
}

function openAttempt(row: Run, run: RunValue | null, fleet: Fleet, aheadMs: number): OpenAttempt {
  const lostAt = fleet.nodeLostAt(row.node_id);
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  return {
    ...{ id: row.id, number: row.number, nodeId: row.node_id, nodeLostAt: lostAt && shared(lostAt) },
    run: run && { ...run, changedAt: shared(new Date(run.changedAt)).toISOString() },
  };
}

/** Oldest first. */
const listOpen = (db: Db) =>
  db
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

const listAttempts = (db: Db, ids: readonly string[]): Promise<Run[]> =>
  db
    .selectFrom("run")
    .selectAll()
    .where("kind", "=", "job")
    .where("owner_id", "=", sql<string>`any(${ids}::uuid[])`)
    .orderBy("number")
    .execute();
