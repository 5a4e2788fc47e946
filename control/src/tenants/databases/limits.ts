// @pure
import type { DatabaseEngine } from "@svc/proto";
import type { TaskResources } from "../../fleet/tasks/kinds/kind.ts";
import type { Plan } from "../../stores/db/tables.ts";

type Sizes = Pick<Plan, "db_size_mb" | "db_connection_limit" | "cpu_millicores">;

/**
 * Connections that the platform keeps for itself beyond the plan's: an app that has used up its own does not lock its owner
 * out of the console.
 */
export const reservedConnections = 5;

/** Connections of the tenant's role that the server allows. What apps open is counted before it, by the database proxy. */
export const roleConnectionLimit = (plan: Pick<Plan, "db_connection_limit">): number =>
  plan.db_connection_limit + reservedConnections;

/** Sessions of the platform's own, besides those of the tenant's role. */
const platformSessions = 10;

/** What a server has from its start on: how many connections it takes in all, and the size that its files aside are bound by. */
export const serverStart = (
  plan: Pick<Plan, "db_size_mb" | "db_connection_limit">,
): { connections: number; sizeMb: number } => ({
  connections: roleConnectionLimit(plan) + platformSessions,
  sizeMb: serverSizeMb(plan),
});

/** Whether a server was started with less than a plan gives: only another start changes that. */
export function hasOutgrown(
  started: { connections: number; sizeMb: number },
  plan: Pick<Plan, "db_size_mb" | "db_connection_limit">,
): boolean {
  const { connections, sizeMb } = serverStart(plan);
  return started.connections < connections || started.sizeMb < sizeMb;
}

const engines = {
  // What the server itself takes, of memory and of processes or threads; what each connection takes.
  // Of Postgres' 2.5 MB half a megabyte is a connection's part of the table of locks.
  postgres: { memoryMb: 128, connectionMemoryMb: 2.5, pids: 64, reservedMemoryMb: 64 },
  mariadb: { memoryMb: 192, connectionMemoryMb: 1, pids: 96, reservedMemoryMb: 128 },
} as const satisfies Record<DatabaseEngine, object>;

const cacheMb = { min: 16, max: 512 } as const;
/** The part of a full database that is kept in memory. */
const cachedPart = 1 / 16;

/** What the server keeps of the database in memory of its own: shared buffers, or the buffer pool. */
export const serverCacheMb = (plan: Pick<Plan, "db_size_mb">): number =>
  Math.min(Math.max(Math.ceil(plan.db_size_mb * cachedPart), cacheMb.min), cacheMb.max);

const leastSizeMb = 64;

/**
 * What a server is told that its owner may store, by which it keeps temporary files and logs: also under a plan that allows
 * less, or no database at all, what there is can be read.
 */
export const serverSizeMb = (plan: Pick<Plan, "db_size_mb">): number => Math.max(plan.db_size_mb, leastSizeMb);

/** What the server of a branch may take of its node, by its owner's plan, and what is set aside for it. */
export function serverResources(engine: DatabaseEngine, plan: Sizes): TaskResources {
  const { memoryMb, connectionMemoryMb, pids, reservedMemoryMb } = engines[engine];
  const connections = roleConnectionLimit(plan);
  return {
    memoryMb: memoryMb + serverCacheMb(plan) + Math.ceil(connectionMemoryMb * connections),
    cpuMillicores: plan.cpu_millicores,
    pidsLimit: pids + connections,
    reservedMemoryMb,
    reservedCpuMillicores: Math.min(reservedCpuMillicores, plan.cpu_millicores),
    // Its volume is bounded by the plan's size of databases, and it writes to nothing else.
    storageMb: 0,
  };
}

/** What an idle server takes. */
const reservedCpuMillicores = 10;

const mebibyte = 1024 * 1024;

/** Whether a branch holds more than its plan allows. */
export const isOverLimit = (sizeBytes: number, plan: Pick<Plan, "db_size_mb">): boolean =>
  sizeBytes > plan.db_size_mb * mebibyte;
