import { type DeploymentStatus, deploymentStatuses } from "@svc/proto";
import { sql } from "kysely";
import { bounded } from "../../../stores/db/bounded.ts";
import type { Db } from "../../../stores/db/pool.ts";

export interface Counts {
  projects: number;
  users: number;
  leavingUsers: number;
  leavingProjects: number;
  requests24h: number;
}

/** Users and projects that are being deleted count apart. */
export async function readCounts(db: Db): Promise<Counts> {
  const { rows } = await sql<Counts>`
    select
      (select count(*) from project where deleting_at is null) as projects,
      (select count(*) from project where deleting_at is not null) as "leavingProjects",
      (select count(*) from auth."user") - (select count(*) from user_deletion) as users,
      (select count(*) from user_deletion) as "leavingUsers",
      (select ${bounded(sql`coalesce(sum(requests), 0)`)} from traffic_total_hour
        where hour >= now() - interval '24 hours')
        as "requests24h"`.execute(db);
  return one(rows);
}

/** Every status is there, also those that no deployment has. */
export async function countDeployments(db: Db): Promise<Record<DeploymentStatus, number>> {
  const { rows } = await sql<{ status: DeploymentStatus; count: number }>`
    select status, count(*) as count from deployment group by 1`.execute(db);
  const counted = new Map(rows.map(({ status, count }) => [status, count]));
  return Object.fromEntries(deploymentStatuses.map((status) => [status, counted.get(status) ?? 0])) as Record<
    DeploymentStatus,
    number
  >;
}

/** By the plan's slug; whoever was given none has the default one. */
export async function countUsersByPlan(db: Db): Promise<Record<string, number>> {
  const { rows } = await sql<{ slug: string; count: number }>`
    with had as (
      select coalesce(account.plan_id, (select id from plan where is_default)) as plan_id, count(*) as count
      from auth."user" u left join account on account.user_id = u.id
      where not exists (select from user_deletion where user_id = u.id) group by 1)
    select plan.slug, coalesce(had.count, 0) as count from plan left join had on had.plan_id = plan.id
    order by plan.slug`.execute(db);
  return Object.fromEntries(rows.map(({ slug, count }) => [slug, count]));
}

export interface StoredBytes {
  source: number;
  image: number;
  bundle: number;
}

/** What is in the registry, by kind; content that was pushed twice to one repository counts once. */
export async function readStoredBytes(db: Db): Promise<StoredBytes> {
  const { rows } = await sql<{ kind: keyof StoredBytes; bytes: number }>`
    select kind, coalesce(sum(bytes), 0)::bigint as bytes
    from (
      select kind, max(size_bytes) as bytes from artifact
      where digest is not null group by project_id, kind, repository, digest
    ) content
    group by 1`.execute(db);
  return { source: 0, image: 0, bundle: 0, ...Object.fromEntries(rows.map(({ kind, bytes }) => [kind, bytes])) };
}

export interface DatabaseFacts {
  version: string;
  bytes: number;
  logBytes: number;
  connections: number;
}

export async function readDatabaseFacts(db: Db): Promise<DatabaseFacts> {
  const { rows } = await sql<DatabaseFacts>`
    select current_setting('server_version') as version, pg_database_size(current_database()) as bytes,
      pg_total_relation_size('log_chunk') as "logBytes",
      (select count(*) from pg_stat_activity where datname = current_database()) as connections`.execute(db);
  return one(rows);
}

export interface QueueFacts {
  queued: number;
  running: number;
  failed: number;
  oldestSeconds: number;
}

/** Work that waits on purpose is not late, however old it is. */
export async function readQueue(db: Db): Promise<QueueFacts> {
  const { rows } = await sql<QueueFacts>`
    select count(*) filter (where state = 'queued') as queued, count(*) filter (where state = 'running') as running,
      count(*) filter (where state = 'failed') as failed,
      coalesce(greatest(0, extract(epoch from now() - min(run_at) filter (where state = 'queued'))), 0)::bigint
        as "oldestSeconds"
    from work_item where state != 'done'`.execute(db);
  return one(rows);
}

/** Aggregates without groups have exactly one row. */
function one<T>([row]: readonly T[]): T {
  if (row === undefined) throw new Error("the database counted nothing");
  return row;
}
