import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { readClockLag } from "../../jobs/clock/lag.ts";

/** What the gauges of the fleet show and only Postgres knows. */
export interface StoredFacts {
  work: { kind: string; state: "queued" | "running" | "failed"; count: number; oldestSeconds: number }[];
  waiting: number;
  refused: { reason: string; count: number }[];
  certificates: { role: "node" | "edge"; daysLeft: number }[];
  diskFull: number;
  memoryShort: number;
  copies: { state: string; place: "elsewhere" | "local"; count: number }[];
  /** Null where there is nothing to tell of. */
  copyLagSeconds: number | null;
  uncopied: number;
  proofs: { verdict: "proven" | "failed"; count: number }[];
  proofAgeSeconds: number | null;
  jobsLagSeconds: number;
  /** Null: no bucket is set. */
  notOffsite: { count: number; oldestSeconds: number; copyLagSeconds: number | null } | null;
}

const reasonsMax = 30;

/**
 * A few short statements over indexed or small tables.
 *
 * @param offsitePlace the bucket that backups are put into; null: there is none
 */
export async function readStoredFacts(db: Db, offsitePlace: string | null): Promise<StoredFacts> {
  const work = await sql<StoredFacts["work"][number]>`
    select kind, state, count(*)::int as count,
      coalesce(max(extract(epoch from now() - run_at)) filter (where state = 'queued' and run_at <= now()), 0)::float8
        as "oldestSeconds"
    from work_item where state != 'done' group by kind, state`.execute(db);
  const waiting = await sql<{ count: number }>`
    select count(*)::int as count from task
    where desired = 'running' and node_id is null and reaped_at is null`.execute(db);
  const refused = await sql<StoredFacts["refused"][number]>`
    select reason, count(*)::int as count from task, jsonb_object_keys(coalesce(refused, '{}'::jsonb)) as reason
    where desired = 'running' and node_id is null and reaped_at is null
    group by reason order by count desc limit ${reasonsMax}`.execute(db);
  const machines = await sql<{ role: "node" | "edge"; daysLeft: number | null; diskFull: number; memoryShort: number }>`
    select role, (min(extract(epoch from certificate_expires_at - now())) / 86400)::float8 as "daysLeft",
      (count(*) filter (where disk_full))::int as "diskFull",
      (count(*) filter (where memory_short))::int as "memoryShort"
    from node where lifecycle = 'active' group by role`.execute(db);
  const copies = await sql<StoredFacts["copies"][number]>`
    select copy.state, case when copy.node_id <> database.node_id then 'elsewhere' else 'local' end as place,
      count(*)::int as count
    from database_copy copy join database on database.id = copy.database_id
    where copy.state <> 'ended' group by 1, 2`.execute(db);
  const lags = await sql<{ lag: number | null; uncopied: number }>`
    select max(extract(epoch from now() - copy.covered_at))::float8 as lag,
      (count(*) filter (where copy.state is distinct from 'following'))::int as uncopied
    from database join project on project.id = database.project_id
      left join database_copy copy
        on copy.database_id = database.id and copy.purpose = 'keeper' and copy.state <> 'ended'
    where database.status = 'ready' and project.suspended_at is null`.execute(db);
  const proofs = await sql<StoredFacts["proofs"][number]>`
    select verdict, count(*)::int as count from (
      select distinct on (database_id) verdict from restore_proof join database on database.id = database_id
      where verdict <> 'pending' order by database_id, restore_proof.created_at desc) last
    group by verdict`.execute(db);
  const proven = await sql<{ age: number | null }>`
    select max(age)::float8 as age from (
      select extract(epoch from now() - max(ended_at)) as age from restore_proof join database on database.id = database_id
      where verdict = 'proven' group by database_id) each`.execute(db);
  const notOffsite = await sql<{ count: number; oldestSeconds: number; copyLagSeconds: number | null }>`
    select count(*)::int as count, coalesce(max(extract(epoch from now() - ended_at)), 0)::float8 as "oldestSeconds",
      (select max(extract(epoch from now() - coalesce(away.covered_at, copy.created_at)))::float8 from database_copy copy
        join database on database.id = copy.database_id and database.generation = copy.generation
        left join offsite_copy away on away.copy_id = copy.id and away.place = ${offsitePlace}::text
        where copy.purpose = 'keeper' and copy.state = 'following' and database.status = 'ready') as "copyLagSeconds"
    from database_backup backup where status = 'complete' and not exists (
      select from offsite_file file
      where file.backup_id = backup.id and file.place = ${offsitePlace}::text and file.complete_at is not null)`.execute(
    db,
  );
  const jobsLagSeconds = await readClockLag(db);
  return {
    jobsLagSeconds,
    notOffsite: offsitePlace === null ? null : (notOffsite.rows[0] ?? null),
    copies: copies.rows,
    copyLagSeconds: lags.rows[0]?.lag ?? null,
    uncopied: lags.rows[0]?.uncopied ?? 0,
    proofs: proofs.rows,
    proofAgeSeconds: proven.rows[0]?.age ?? null,
    work: work.rows,
    waiting: waiting.rows[0]?.count ?? 0,
    refused: refused.rows,
    certificates: machines.rows.flatMap(({ role, daysLeft }) => (daysLeft === null ? [] : [{ role, daysLeft }])),
    diskFull: machines.rows.reduce((sum, { diskFull }) => sum + diskFull, 0),
    memoryShort: machines.rows.reduce((sum, { memoryShort }) => sum + memoryShort, 0),
  };
}
