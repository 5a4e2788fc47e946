import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import type { OffsiteHealth } from "./offsite.ts";
import type { ChangeHealth, CopyHealth, DownDatabase, UnknownVolumes } from "./rules.ts";

interface Row {
  project: string;
  channel: string;
  state: "basing" | "following" | "broken" | null;
  problem: string | null;
  is_elsewhere: boolean | null;
  lag_seconds: number | null;
  age_seconds: number | null;
  has_other_node: boolean;
  proof_problem: string | null;
}

/** Enough to see what is wrong. */
const branchesMax = 5_000;
/** A branch that has just become ready has no copy yet. */
const settledSeconds = 300;

/** Of all branches that are ready and on the air. */
export async function readCopyHealth(db: Db): Promise<CopyHealth[]> {
  const { rows } = await sql<Row>`
    select project.slug as project, database.channel, copy.state, copy.problem,
      copy.node_id <> database.node_id as is_elsewhere,
      greatest(extract(epoch from now() - copy.covered_at), 0)::int as lag_seconds,
      extract(epoch from now() - copy.created_at)::int as age_seconds,
      exists (select from node where role = 'node' and lifecycle = 'active' and schedulable and drain = 'none'
        and id <> database.node_id) as has_other_node,
      (select problem from restore_proof where database_id = database.id and verdict <> 'pending'
        order by created_at desc limit 1) as proof_problem
    from database join project on project.id = database.project_id
      left join database_copy copy
        on copy.database_id = database.id and copy.purpose = 'keeper' and copy.state <> 'ended'
    where database.status = 'ready' and project.suspended_at is null and project.deleting_at is null
      and database.status_at < now() - ${settledSeconds} * interval '1 second'
    order by project.slug, database.channel limit ${branchesMax}`.execute(db);
  return rows.map((row) => ({
    ...{ project: row.project, channel: row.channel, hasOtherNode: row.has_other_node },
    proofProblem: row.proof_problem,
    copy:
      row.state === null
        ? null
        : {
            ...{ state: row.state, problem: row.problem, isElsewhere: row.is_elsewhere ?? false },
            ...{ lagSeconds: row.lag_seconds, ageSeconds: row.age_seconds ?? 0 },
          },
  }));
}

/** Of all that are on the air. */
export async function readDownDatabases(db: Db): Promise<DownDatabase[]> {
  const { rows } = await sql<DownDatabase>`
    select project.slug as project, database.channel, node.name as node,
      case database.status when 'error' then coalesce(database.reason, 'nobody says why.') end as reason
    from database join project on project.id = database.project_id left join node on node.id = database.node_id
    where (database.status = 'error' or (database.status = 'ready' and database.server_failures > 0))
      and project.suspended_at is null and project.deleting_at is null
    order by project.slug, database.channel limit ${branchesMax}`.execute(db);
  return rows;
}

/** Of all that are under way and may keep a tenant out, the longest first. */
export async function readChangeHealth(db: Db): Promise<ChangeHealth[]> {
  const { rows } = await sql<ChangeHealth>`
    select project.slug as project, database.channel, change.kind, change.state,
      extract(epoch from now() - change.state_at)::int as seconds
    from database_change change join database on database.id = change.database_id
      join project on project.id = database.project_id
    where change.ended_at is null and change.state in ('freezing', 'draining', 'stopping', 'restoring')
      and project.suspended_at is null and project.deleting_at is null
    order by change.state_at limit ${branchesMax}`.execute(db);
  return rows;
}

/** Of all nodes that are there, by their names. */
export async function readUnknownVolumes(db: Db): Promise<UnknownVolumes[]> {
  const { rows } = await sql<UnknownVolumes>`
    select node.name as node, array_agg(volume.name order by volume.name) as names
    from unknown_volume volume join node on node.id = volume.node_id
    where node.lifecycle = 'active' group by node.name order by node.name`.execute(db);
  return rows;
}

/** Of the backups of all projects. */
export async function readOffsiteHealth(
  db: Db,
  place: string | null,
): Promise<Omit<OffsiteHealth, "problem" | "place">> {
  // A copy that has just begun is not off-site yet.
  const behind = sql`
    select away.problem from database_copy copy
      join database on database.id = copy.database_id and database.generation = copy.generation
      left join offsite_copy away on away.copy_id = copy.id and away.place = ${place}::text
    where copy.purpose = 'keeper' and copy.state = 'following' and database.status = 'ready'
      and coalesce(away.covered_at, copy.created_at) < now() - interval '1 hour'`;
  const { rows } = await sql<Omit<OffsiteHealth, "problem" | "place">>`
    select (count(*) filter (where file.complete_at is not null))::int as whole,
      (count(*) filter (where file.complete_at is null))::int as waiting,
      coalesce(max(extract(epoch from now() - backup.ended_at)) filter (where file.complete_at is null), 0)::float8
        as "waitingSeconds",
      max(file.problem) filter (where file.complete_at is null) as "waitingProblem",
      (select count(*)::int from offsite_file where place is distinct from ${place}::text)
        + (select count(*)::int from offsite_copy where place is distinct from ${place}::text) as elsewhere,
      (select count(*)::int from (${behind}) each) as behind,
      (select max(problem) from (${behind}) each) as "behindProblem"
    from database_backup backup left join offsite_file file on file.backup_id = backup.id and file.place = ${place}::text
    where backup.status = 'complete'`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not tell of backups");
  return row;
}
