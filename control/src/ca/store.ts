import type { Db } from "../db/pool.ts";

export interface ClusterRow {
  id: string;
  epoch: number;
  /** PEM. */
  caCertificate: string;
  /** Sealed PKCS#8 in PEM. */
  caKey: Buffer;
}

/** The one row of the cluster, or null before its first start. */
export async function findCluster(db: Db): Promise<ClusterRow | null> {
  const row = await db
    .selectFrom("cluster")
    .select(["id", "epoch", "ca_certificate as caCertificate", "ca_key as caKey"])
    .executeTakeFirst();
  return row ?? null;
}

/** Writes the row unless another replica was first. */
export async function insertCluster(db: Db, row: Omit<ClusterRow, "epoch"> & { createdAt: Date }): Promise<void> {
  await db
    .insertInto("cluster")
    .values({ id: row.id, ca_certificate: row.caCertificate, ca_key: row.caKey, created_at: row.createdAt })
    .onConflict((conflict) => conflict.column("only").doNothing())
    .execute();
}
