import { createHash, createHmac, hkdfSync } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { type Gate, GateSchema } from "@svc/proto/edge";
import { dayOf, sitePassDays, sitePassOf } from "@svc/proto/site-pass";
import type { Db } from "../../stores/db/pool.ts";
import type { GateOf } from "../tasks/owners/owner.ts";

/** From which the gates of all sites are made. Never leaves control. */
export type GateSecret = Buffer;

/** Derived, so that whoever reads the database alone cannot make a visitor's cookie. */
export const gateSecretOf = (authSecret: string): GateSecret =>
  Buffer.from(hkdfSync("sha256", authSecret, "", "svc site password 1", 32));

export interface SiteGate {
  /** 32 bytes, secret: edges make the values of the visitors' cookies from it. */
  key: Buffer;
  /** Public name of the key, in the route table. Another password, or the same set again, has another one. */
  revision: string;
}

/** As long as a revision can be without crowding upstreams out of the edges' table; 66 bits. */
const revisionLength = 11;

/** The gate of a project with this bcrypt hash. Equal input gives an equal gate, on every replica. */
export function gateOf(secret: GateSecret, projectId: string, passwordHash: string): SiteGate {
  const key = createHmac("sha256", secret).update(lengthPrefixed(projectId, passwordHash)).digest();
  const revision = createHash("sha256").update("svc gate revision 1").update(key).digest("base64url");
  return { key, revision: revision.slice(0, revisionLength) };
}

/** Each part with its length before it, so that nothing can move from one part to another. */
function lengthPrefixed(...parts: string[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

const passMs = 3_600_000;

/**
 * What opens the gate to svc itself for an hour at least, and for a day and an hour at most: the cookie of a visitor who typed the
 * password so long ago that it is about to end. Edges need to be told nothing for it.
 */
export function passOf(secret: GateSecret, { projectId, passwordHash, channel }: GateOf, now: Date): string {
  const { key } = gateOf(secret, projectId, passwordHash);
  return sitePassOf(key, channel, dayOf(now.getTime() + passMs) - (sitePassDays - 1));
}

/** What an edge needs to guard these projects; those that are open or gone are left out. */
export async function loadGates(db: Db, secret: GateSecret, projectIds: readonly string[]): Promise<Gate[]> {
  if (projectIds.length === 0) return [];
  const rows = await db
    .selectFrom("project")
    .select(["id", "password_hash"])
    .where("id", "in", projectIds)
    .where("password_hash", "is not", null)
    .execute();
  return rows.flatMap(({ id, password_hash: passwordHash }) => {
    if (passwordHash === null) return [];
    const { key, revision } = gateOf(secret, id, passwordHash);
    return [create(GateSchema, { projectId: id, revision, key: Uint8Array.from(key), passwordHash })];
  });
}
