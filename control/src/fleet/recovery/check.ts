import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { keys } from "../cluster/keys.ts";
import { RecoveryRefused } from "./command.ts";

/** The revision of etcd by which a leader has last decided. */
export async function lastDecision(db: Db): Promise<bigint> {
  const { epoch } = await db.selectFrom("leader_fence").select("epoch").executeTakeFirstOrThrow();
  return BigInt(epoch);
}

/**
 * Refuses to serve with an etcd that is certainly older than the one on which a leader has decided before: its word would
 * count for nothing, and what it says of release commands is out of date. A backup from after the last change of leader
 * is not recognised by this; daemons then refuse what is older than what they have.
 *
 * @throws RecoveryRefused, EtcdError
 */
export async function requireRecovered(
  readLastDecision: () => Promise<bigint>,
  etcd: Pick<Etcd, "range">,
): Promise<void> {
  // In this order: a leader that is elected in between raises both.
  const decided = await readLastDecision();
  const { revision } = await etcd.range(keys.leader);
  if (decided <= revision) return;
  throw new RecoveryRefused(
    "etcd is older than what this cluster has decided on: it was restored or is a new one. Stop every control server, run `svc-control after-restore`, and start them again",
  );
}
