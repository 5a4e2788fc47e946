import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** Announced when the authority was replaced or the replaced one dropped, so that every replica reads it again. */
export const authorityTopic = "svc_authority";

export interface ClusterRow {
  id: string;
  epoch: number;
  /** PEM of the authority that signs. */
  caCertificate: string;
  /** Sealed PKCS#8 in PEM. */
  caKey: Buffer;
  /** While the authority is being replaced: the one before (PEM), and the present one signed by it (PEM). */
  replacing: { previous: string; cross: string } | null;
}

const columns = [
  "id",
  "epoch",
  "ca_certificate as caCertificate",
  "ca_key as caKey",
  "previous_ca_certificate as previous",
  "cross_certificate as cross",
] as const;

/**
 * The one row of the cluster, or null before its first start. `lock` keeps it as it is until the transaction ends:
 * `share` for whoever issues a certificate, `update` for whoever changes the authority.
 */
export async function findCluster(db: Db, lock: "share" | "update" | null = null): Promise<ClusterRow | null> {
  const query = db.selectFrom("cluster").select(columns);
  const locked = lock === null ? query : lock === "share" ? query.forShare() : query.forUpdate();
  const row = await locked.executeTakeFirst();
  if (row === undefined) return null;
  const { previous, cross, ...rest } = row;
  return { ...rest, replacing: previous === null || cross === null ? null : { previous, cross } };
}

/** Writes the row unless another replica was first. */
export async function insertCluster(
  db: Db,
  row: Pick<ClusterRow, "id" | "caCertificate" | "caKey"> & { createdAt: Date },
): Promise<void> {
  await db
    .insertInto("cluster")
    .values({ id: row.id, ca_certificate: row.caCertificate, ca_key: row.caKey, created_at: row.createdAt })
    .onConflict((conflict) => conflict.column("only").doNothing())
    .execute();
}

/** Puts another authority in the place of the one that signs, which stays trusted. The row has to be locked. */
export async function replaceAuthority(
  db: Db,
  next: { caCertificate: string; caKey: Buffer; previous: string; cross: string; startedAt: Date },
): Promise<void> {
  await db
    .updateTable("cluster")
    .set({
      ca_certificate: next.caCertificate,
      ca_key: next.caKey,
      previous_ca_certificate: next.previous,
      cross_certificate: next.cross,
      rotation_started_at: next.startedAt,
    })
    .execute();
  await announce(db);
}

/** Drops the authority before the present one. The row has to be locked. */
export async function dropPrevious(db: Db, finishedAt: Date): Promise<void> {
  await db
    .updateTable("cluster")
    .set({ previous_ca_certificate: null, cross_certificate: null, rotation_finished_at: finishedAt })
    .execute();
  await announce(db);
}

/** Heard by everybody once the transaction has committed. */
const announce = (db: Db) => sql`select pg_notify(${authorityTopic}, '')`.execute(db);

/** Notes what daemons trust, by the certificates that they present. One statement for all; what is known already is not written. */
export async function noteTrust(db: Db, daemons: readonly { id: string; trust: string | null }[]): Promise<void> {
  if (daemons.length === 0) return;
  await sql`
    update node set certificate_trust = presented.trust
    from unnest(${daemons.map(({ id }) => id)}::uuid[], ${daemons.map(({ trust }) => trust)}::text[])
      as presented (id, trust)
    where node.id = presented.id and node.certificate_trust is distinct from presented.trust`.execute(db);
}
