import { readFile } from "node:fs/promises";
import { processorTime } from "../processor-time.ts";
import type { Stand } from "./stand.ts";

/** What the stores have done so far, and what control has used. */
export interface Figures {
  at: number;
  /** Raft proposals that etcd applied: transactions, leases, compactions. */
  etcdProposals: number;
  /** etcd's revision: transactions that wrote a key. */
  etcdRevision: number;
  etcdDbMb: number;
  /** Write-ahead log syncs, and the seconds that they took. */
  etcdSyncs: number;
  etcdSyncSeconds: number;
  postgresCommits: number;
  postgresRowsWritten: number;
  controlSeconds: number;
  controlRssMb: number;
}

const readings = {
  etcdProposals: "etcd_server_proposals_applied_total",
  etcdDbBytes: "etcd_mvcc_db_total_size_in_bytes",
  etcdSyncs: "etcd_disk_wal_fsync_duration_seconds_count",
  etcdSyncSeconds: "etcd_disk_wal_fsync_duration_seconds_sum",
} as const;

async function etcdMetrics(url: string): Promise<Record<keyof typeof readings, number>> {
  const reply = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(10_000) });
  const text = await reply.text();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  return {
    etcdProposals: value(readings.etcdProposals),
    etcdDbBytes: value(readings.etcdDbBytes),
    etcdSyncs: value(readings.etcdSyncs),
    etcdSyncSeconds: value(readings.etcdSyncSeconds),
  };
}

export const rssMb = async (pid: number): Promise<number> =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1] ?? Number.NaN) / 1024;

/** Processor time of the process itself, seconds. */
export const cpuSeconds = async (pid: number): Promise<number> => (await processorTime(pid)).own / 1e6;

export async function readFigures(stand: Stand): Promise<Figures> {
  const { etcd, etcdUrl, pool } = stand;
  const pid = stand.controlPid();
  const [metrics, snapshot, postgres, seconds, memory] = await Promise.all([
    etcdMetrics(etcdUrl),
    etcd.range("/svc/leader"),
    pool.query<{ commits: string; written: string }>(
      `select xact_commit as commits, tup_inserted + tup_updated + tup_deleted as written
       from pg_stat_database where datname = current_database()`,
    ),
    cpuSeconds(pid),
    rssMb(pid),
  ]);
  return {
    at: performance.now(),
    etcdProposals: metrics.etcdProposals,
    etcdRevision: Number(snapshot.revision),
    etcdDbMb: metrics.etcdDbBytes / 1024 ** 2,
    etcdSyncs: metrics.etcdSyncs,
    etcdSyncSeconds: metrics.etcdSyncSeconds,
    postgresCommits: Number(postgres.rows[0]?.commits ?? Number.NaN),
    postgresRowsWritten: Number(postgres.rows[0]?.written ?? Number.NaN),
    controlSeconds: seconds,
    controlRssMb: memory,
  };
}
