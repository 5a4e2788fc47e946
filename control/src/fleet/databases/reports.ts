import type { DatabaseSample } from "@svc/proto/node";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import { enqueueChecks } from "./checks.ts";

const maxAgeMs = 3_600_000;
const maxAheadMs = 60_000;
const maxInt = 2_147_483_647;
const maxBytes = BigInt(Number.MAX_SAFE_INTEGER);
/** A volume that has grown or shrunk by so much holds a database of another size. */
const grownBytes = 4 * 1024 * 1024;

/** Samples that can be true: of a branch, at a known time, of numbers that can be. The others are dropped. */
export function plausibleReports(samples: readonly DatabaseSample[], now: Date): DatabaseSample[] {
  return samples.filter(({ databaseId, at, volumeBytes = 0n, connections = 0, failedLogins = 0n }) => {
    const age = now.getTime() - new Date(at).getTime();
    return (
      uuid.test(databaseId) &&
      age <= maxAgeMs &&
      age >= -maxAheadMs &&
      volumeBytes <= maxBytes &&
      connections <= maxInt &&
      failedLogins <= maxBytes
    );
  });
}

const orNull = (value: bigint | undefined) => (value === undefined ? null : String(value));

/**
 * Stores what a node told of databases: size and use of those whose data it has, and logins of its containers that failed. Has
 * those looked at whose size has changed, or at which a login failed since: its password may have been changed behind our back.
 */
export async function storeReports(db: Db, nodeId: string, samples: readonly DatabaseSample[]): Promise<void> {
  // At most one of each database: the newest.
  const own = [
    ...new Map(samples.toSorted((a, b) => (a.at < b.at ? -1 : 1)).map((each) => [each.databaseId, each])).values(),
  ];
  if (own.length === 0) return;
  await db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ id: string }>`
      with reported as (
        select * from unnest(
          ${own.map(({ databaseId }) => databaseId)}::uuid[],
          ${own.map(({ volumeBytes }) => orNull(volumeBytes))}::bigint[],
          ${own.map(({ connections = null }) => connections)}::integer[],
          ${own.map(({ failedLogins }) => orNull(failedLogins))}::bigint[]) as r (id, volume_bytes, connections, failed)),
      measured as (
        update database set connections = reported.connections, measured_at = now(),
          volume_bytes = coalesce(reported.volume_bytes, database.volume_bytes)
        from reported
        where database.id = reported.id and database.node_id = ${nodeId}
          and (reported.connections is not null or reported.volume_bytes is not null)
        returning database.id,
          abs(database.volume_bytes - coalesce(database.sized_volume_bytes, 0)) >= ${grownBytes} as has_grown),
      failures as (
        insert into database_login_failures (database_id, node_id, failed)
        select reported.id, ${nodeId}, reported.failed from reported join database on database.id = reported.id
        where reported.failed is not null order by reported.id
        on conflict (database_id, node_id) do update set failed = excluded.failed
          where database_login_failures.failed <> excluded.failed
        returning database_id, failed)
      select id from measured where has_grown
      union select database_id from failures where failed > 0`.execute(tx);
    await enqueueChecks(
      tx,
      rows.map(({ id }) => id),
    );
  });
}
