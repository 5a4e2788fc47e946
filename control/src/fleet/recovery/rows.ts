import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Db } from "../../stores/db/pool.ts";
import { revokeOpenTokens } from "../nodes/tokens.ts";
import { listOpenAttempts } from "../tasks/owners/index.ts";
import type { OpenAttempt } from "../tasks/owners/owner.ts";
import type { KnownTask } from "./steps.ts";

/** A machine that may speak, as far as the restored database says. */
export interface AdmittedNode {
  id: string;
  name: string;
  role: "node" | "edge";
  lastSeenAt: Date | null;
}

/** What a recovery asks of Postgres, and tells it. */
export interface RecoveryRows {
  /** Tasks that are not over, and those of these that are. */
  tasks(ids: readonly string[]): Promise<KnownTask[]>;
  /** Attempts of runs of which nobody knows yet how they end. */
  openAttempts(): Promise<OpenAttempt[]>;
  /** Of the cluster; null when there is none yet. */
  epoch(): Promise<number | null>;
  /** Begins a cluster epoch, in which no leader has decided yet and no token is left that was not used. How many those were. */
  begin(epoch: number, now: Date): Promise<number>;
  /** By name. */
  admitted(): Promise<AdmittedNode[]>;
}

/** Ids in one question to Postgres. */
const idsPerQuery = 1_000;

export const recoveryRows = (db: Db): RecoveryRows => ({
  tasks: (ids) => readTasks(db, ids),
  openAttempts: () => listOpenAttempts(db),
  async epoch() {
    const row = await db.selectFrom("cluster").select("epoch").executeTakeFirst();
    return row?.epoch ?? null;
  },
  begin: (epoch, now) =>
    db.transaction().execute(async (tx) => {
      await tx.updateTable("cluster").set({ epoch }).execute();
      // The next leader's number is a revision of this etcd, however small.
      await tx.updateTable("leader_fence").set({ epoch: 0 }).execute();
      const tokensRevoked = await revokeOpenTokens(tx, now);
      const detail = { epoch, tokensRevoked };
      await recordAudit(tx, { caller: null, address: "", action: "cluster.recover", detail });
      return tokensRevoked;
    }),
  admitted: () =>
    db
      .selectFrom("node")
      .select(["id", "name", "role", "last_seen_at as lastSeenAt"])
      .where("lifecycle", "=", "active")
      .orderBy("name")
      .execute(),
});

async function readTasks(db: Db, ids: readonly string[]): Promise<KnownTask[]> {
  const rows = await db.selectFrom("task").selectAll().where("reaped_at", "is", null).execute();
  for (let at = 0; at < ids.length; at += idsPerQuery) {
    const some = ids.slice(at, at + idsPerQuery);
    const named = db.selectFrom("task").selectAll().where("reaped_at", "is not", null);
    rows.push(...(await named.where(sql<boolean>`id = any(${some}::uuid[])`).execute()));
  }
  return rows.map((task) => ({
    id: task.id,
    nodeId: task.node_id,
    reaped: task.reaped_at !== null,
    epoch: task.epoch,
    desired: task.desired,
    kind: task.kind,
    specHash: task.spec_hash,
    projectId: task.project_id,
    ownerKind: task.owner_kind,
    ownerId: task.owner_id,
    channel: task.channel,
    memoryMb: task.memory_mb,
    cpuMillicores: task.cpu_millicores,
    pidsLimit: task.pids_limit,
    storageMb: task.storage_mb,
    drainSeconds: task.drain_seconds,
    reservedMemoryMb: task.reserved_memory_mb ?? undefined,
    reservedCpuMillicores: task.reserved_cpu_millicores ?? undefined,
  }));
}
