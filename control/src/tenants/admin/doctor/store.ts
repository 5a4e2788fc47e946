import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { WaitingTask, WorkFacts } from "./machines/rules.ts";
import type { PostgresFacts } from "./stores/rules.ts";

export async function readPostgres(
  db: Db,
): Promise<Pick<PostgresFacts, "version" | "connectionsUsed" | "connectionsMax" | "isPlaintext">> {
  const { rows } = await sql<{ version: string; used: number; max: number; plaintext: boolean }>`
    select current_setting('server_version') as version,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max,
      -- Null over a socket.
      not coalesce(inet_client_addr() <<= '127.0.0.0/8' or inet_client_addr() = '::1', true)
        and not (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as plaintext`.execute(db);
  const { version = "unknown", used = 0, max = 1, plaintext = false } = rows[0] ?? {};
  return {
    version: version.split(" ")[0] ?? version,
    connectionsUsed: used,
    connectionsMax: max,
    isPlaintext: plaintext,
  };
}

const overdue = sql.lit("5 minutes");

export async function readWork(db: Db): Promise<WorkFacts> {
  const { rows } = await sql<WorkFacts["kinds"][number]>`
    select kind,
      count(*) filter (where state = 'failed' and finished_at > now() - interval '1 day')::int as failed,
      count(*) filter (where state = 'queued' and run_at < now() - ${overdue}::interval and not exists (
        select from work_item earlier
        where earlier.key = w.key
          and (earlier.state = 'running' or (earlier.state = 'queued' and earlier.id < w.id))))::int as overdue,
      count(*) filter (where state in ('queued', 'running') and attempt >= 3 and error is not null)::int as failing
    from work_item w where state != 'done' group by kind order by kind`.execute(db);
  return { kinds: rows };
}

const waitingShown = 20;

/** Tasks without a node, those that wait longest first; all of them counted. */
export async function readWaiting(db: Db): Promise<{ waiting: WaitingTask[]; total: number }> {
  const { rows } = await sql<WaitingTask & { total: number }>`
    select id as "taskId", owner_id as "deploymentId", kind, coalesce(refused, '{}') as refused,
      (extract(epoch from now() - created_at) * 1000)::int8 as "waitsMs", count(*) over ()::int as total
    from task where desired = 'running' and node_id is null and reaped_at is null
    order by created_at limit ${waitingShown}`.execute(db);
  return { waiting: rows.map(({ total: _, ...task }) => task), total: rows[0]?.total ?? 0 };
}
