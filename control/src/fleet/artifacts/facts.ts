import type { DeploymentStatus } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { ArtifactFacts, Content, Referrer, StoredArtifact } from "./rules.ts";

/** Ids of projects that have artifacts, in order, after `after`: the next part of a way through all of them. */
export async function listProjectsWithArtifacts(db: Db, after: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom("artifact")
    .select("project_id")
    .distinct()
    .where("project_id", ">", after)
    .orderBy("project_id")
    .limit(limit)
    .execute();
  return rows.map((row) => row.project_id);
}

/** What decides about the artifacts of these projects, in a few queries however many they are. */
export async function readArtifactFacts(
  db: Db,
  projectIds: readonly string[],
  { now, rollbackTargets }: { now: Date; rollbackTargets: number },
): Promise<Map<string, ArtifactFacts>> {
  if (projectIds.length === 0) return new Map();
  const present = await db
    .selectFrom("project")
    .select(["id", "deleting_at"])
    .where("id", "in", [...projectIds])
    .execute();
  const artifacts = await listArtifacts(db, projectIds);
  const deployments = await listReferrers(db, projectIds, rollbackTargets);
  const backups = await listBackupFiles(db, projectIds);
  const screenshots = await listScreenshotFiles(db, projectIds);
  const alive = new Set(present.filter(({ deleting_at }) => deleting_at === null).map(({ id }) => id));
  return new Map(
    projectIds.map((id) => [
      id,
      {
        now,
        projectGone: !alive.has(id),
        artifacts: artifacts.get(id) ?? [],
        deployments: deployments.get(id) ?? [],
        files: [...(backups.get(id) ?? []), ...(screenshots.get(id) ?? [])],
      },
    ]),
  );
}

async function listArtifacts(db: Db, projectIds: readonly string[]): Promise<Map<string, StoredArtifact[]>> {
  const rows = await db
    .selectFrom("artifact")
    .leftJoin("task", "task.id", "artifact.id")
    .select(["artifact.id", "artifact.project_id", "repository", "digest", "artifact.created_at", "ended_at"])
    .select(["task.id as task_id", "task.reaped_at"])
    .where("artifact.project_id", "in", [...projectIds])
    .execute();
  return grouped(
    rows.map(({ id, project_id, repository, digest, created_at, ended_at, task_id, reaped_at }) => ({
      projectId: project_id,
      value: {
        id,
        repository,
        digest,
        createdAt: created_at,
        endedAt: ended_at,
        building: task_id === null ? null : reaped_at === null,
      },
    })),
  );
}

async function listBackupFiles(db: Db, projectIds: readonly string[]): Promise<Map<string, Content[]>> {
  const rows = await db
    .selectFrom("database_backup")
    .select(["project_id", "repository", "digest"])
    .where("project_id", "in", [...projectIds])
    .where("status", "=", "complete")
    .execute();
  return grouped(
    rows.flatMap(({ project_id, repository, digest }) => {
      const value = contentOf(repository, digest);
      return value === null ? [] : [{ projectId: project_id, value }];
    }),
  );
}

async function listScreenshotFiles(db: Db, projectIds: readonly string[]): Promise<Map<string, Content[]>> {
  const rows = await db
    .selectFrom("screenshot")
    .select(["project_id", "repository", "digest"])
    .where("project_id", "in", [...projectIds])
    .where("captured_at", "is not", null)
    .execute();
  return grouped(
    rows.flatMap(({ project_id, repository, digest }) => {
      const value = contentOf(repository, digest);
      return value === null ? [] : [{ projectId: project_id, value }];
    }),
  );
}

interface ReferrerRow {
  id: string;
  project_id: string;
  status: DeploymentStatus;
  channel: Referrer["channel"];
  number: number;
  source_repository: string | null;
  source_digest: string | null;
  artifact_repository: string | null;
  artifact_digest: string | null;
  artifact_removed_at: Date | null;
  served: boolean;
  has_open_task: boolean;
}

/** Only deployments that may keep something: histories are long, and most of them keep nothing. */
async function listReferrers(
  db: Db,
  projectIds: readonly string[],
  rollbackTargets: number,
): Promise<Map<string, Referrer[]>> {
  const ids = sql`${[...projectIds]}::uuid[]`;
  const { rows } = await sql<ReferrerRow>`
    with
      open_task as (
        select distinct owner_id from task where project_id = any(${ids}) and reaped_at is null
        union select deployment_id from job_run
          where project_id = any(${ids}) and status in ('queued', 'waiting', 'running', 'cancel_requested')),
      serving as (
        select deployment_id from channel_state where project_id = any(${ids}) and deployment_id is not null),
      candidate as (
        select id from deployment where project_id = any(${ids})
          and status in ('queued', 'building', 'deploying', 'running', 'stopped')
        union select owner_id from open_task
        union select deployment_id from serving
        union select target.id
          from unnest(${ids}) as project (id)
          cross join (values ('production'), ('dev')) as line (channel)
          cross join lateral (
            select id from deployment
            where project_id = project.id and channel = line.channel and status = 'superseded'
              and artifact_digest is not null and artifact_removed_at is null
            order by number desc limit ${rollbackTargets}) as target)
    select id, project_id, status, channel, number, source_repository, source_digest,
      artifact_repository, artifact_digest, artifact_removed_at,
      id in (select deployment_id from serving) as served,
      id in (select owner_id from open_task) as has_open_task
    from deployment where id in (select id from candidate)`.execute(db);
  return grouped(rows.map((row) => ({ projectId: row.project_id, value: referrerOf(row) })));
}

function referrerOf(row: ReferrerRow): Referrer {
  const { id, status, channel, number, served, has_open_task } = row;
  const known = row.artifact_digest !== null && row.artifact_removed_at === null;
  const contents = [
    contentOf(row.source_repository, row.source_digest),
    contentOf(row.artifact_repository, known ? row.artifact_digest : null),
  ].filter((each) => each !== null);
  return { id, status, channel, number, served, hasOpenTask: has_open_task, canBeRestored: known, contents };
}

const contentOf = (repository: string | null, digest: string | null): Content | null =>
  repository === null || digest === null ? null : { repository, digest };

function grouped<T>(rows: readonly { projectId: string; value: T }[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const { projectId, value } of rows) groups.set(projectId, [...(groups.get(projectId) ?? []), value]);
  return groups;
}
