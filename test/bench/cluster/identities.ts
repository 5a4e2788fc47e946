import { createHash, generateKeyPairSync } from "node:crypto";
import type { DaemonsConfig } from "./daemons/messages.ts";
import type { Stand } from "./stand.ts";

type Identities = DaemonsConfig["identities"];

/**
 * Rows and certificates of daemons, each with a key of its own, without the way through the enrolment port: that one
 * takes 20 a second. Returns how long it took, too.
 */
export async function createIdentities(
  { pool, authority }: Pick<Stand, "pool" | "authority">,
  { role, count, name }: { role: "node" | "edge"; count: number; name: string },
): Promise<{ identities: Identities; ms: number }> {
  const startedAt = performance.now();
  const { rows } = await pool.query<{ id: string; name: string; incarnation: number }>(
    `insert into node (role, name, created_at) select $1, $2 || '-' || n, now() from generate_series(1, $3) as n
     returning id, name, incarnation`,
    [role, name, count],
  );
  const identities: Identities = [];
  for (const row of rows) {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const spki = publicKey.export({ format: "der", type: "spki" });
    const hash = createHash("sha256").update(spki).digest();
    const { certificate } = await authority.issueDaemon({ role, ...row }, { spki, hash }, new Date());
    identities.push({
      id: row.id,
      name: row.name,
      role,
      clusterId: authority.clusterId,
      incarnation: String(row.incarnation),
      certificatePem: certificate,
      privateKeyPem: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
      caPem: authority.caCertificate,
      entrancePem: "",
    });
  }
  return { identities, ms: performance.now() - startedAt };
}
