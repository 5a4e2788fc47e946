import { randomBytes } from "node:crypto";
import { recordAudit } from "../../../http/audit.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { caKeyAad, newAuthority, openIssuer } from "../authority.ts";
import { certificateSha256, crossSign } from "../certificates.ts";
import { type ClusterRow, dropPrevious, findCluster, replaceAuthority } from "../store.ts";
import { trustOf } from "../trust.ts";
import { heldUpBy, type MovingDaemon } from "./rules.ts";

/** The authority is being replaced already. */
export class RotationUnderWay extends Error {
  override readonly name = "RotationUnderWay";
}

/**
 * Puts a new authority in the place of the present one, which stays trusted until every daemon has moved, and whose
 * key is gone from here on. In the caller's transaction: of two that start at once one waits and is refused.
 * Null when the cluster has no authority yet. Throws `RotationUnderWay`.
 */
export async function startRotation(
  tx: Db,
  { secrets, now }: { secrets: Secrets; now: Date },
): Promise<{ caSha256: string } | null> {
  const row = await findCluster(tx, "update");
  if (row === null) return null;
  if (row.replacing !== null) throw new RotationUnderWay("the authority is being replaced already");
  const next = await newAuthority(row.id, now);
  await replaceAuthority(tx, {
    caCertificate: next.certificate,
    caKey: secrets.seal(Buffer.from(next.privateKey), caKeyAad),
    previous: row.caCertificate,
    cross: await crossSign(openIssuer(row, secrets), next.certificate, randomBytes(16)),
    startedAt: now,
  });
  return { caSha256: certificateSha256(next.certificate) };
}

/**
 * Drops the authority before, once nobody needs it any more; true when this call did. Safe to repeat and to run on
 * several replicas at once. Daemons that join meanwhile wait for the same row.
 */
export function finishRotation(db: Db, now: Date): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const row = await findCluster(tx, "update");
    if (row === null || row.replacing === null) return false;
    if (heldUpBy(await listMoving(tx), { trust: trustOfRow(row), now }).length > 0) return false;
    await dropPrevious(tx, now);
    const target = certificateSha256(row.caCertificate);
    await recordAudit(tx, { caller: null, address: "", action: "ca.rotation-finish", target });
    return true;
  });
}

/** How the authority stands. */
export interface RotationState {
  caSha256: string;
  /** PEM. */
  caCertificate: string;
  /** Null: it is not being replaced. */
  rotation: { previousSha256: string; startedAt: Date; moved: number; heldUpBy: MovingDaemon[] } | null;
  /** Of the last replacement that came to its end. */
  finishedAt: Date | null;
}

/** Null when the cluster has no authority yet. */
export async function readRotation(db: Db, now: Date): Promise<RotationState | null> {
  const row = await findCluster(db);
  if (row === null) return null;
  const times = await db
    .selectFrom("cluster")
    .select(["rotation_started_at as startedAt", "rotation_finished_at as finishedAt"])
    .executeTakeFirst();
  const state = {
    caSha256: certificateSha256(row.caCertificate),
    caCertificate: row.caCertificate,
    finishedAt: times?.finishedAt ?? null,
  };
  if (row.replacing === null) return { ...state, rotation: null };
  const daemons = await listMoving(db);
  const trust = trustOfRow(row);
  return {
    ...state,
    rotation: {
      previousSha256: certificateSha256(row.replacing.previous),
      startedAt: times?.startedAt ?? now,
      moved: daemons.filter((daemon) => daemon.trust === trust).length,
      heldUpBy: heldUpBy(daemons, { trust, now }),
    },
  };
}

const trustOfRow = ({ caCertificate, replacing }: ClusterRow): string =>
  trustOf(replacing === null ? [caCertificate] : [caCertificate, replacing.previous]);

const listMoving = (db: Db): Promise<MovingDaemon[]> =>
  db
    .selectFrom("node")
    .select([
      "id",
      "name",
      "role",
      "certificate_trust as trust",
      "certificate_expires_at as certificateExpiresAt",
      "last_seen_at as lastSeenAt",
      "created_at as createdAt",
    ])
    .where("lifecycle", "=", "active")
    .orderBy("name")
    .execute();
