import { isIP } from "node:net";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";

/** Where names have to lead: what the operator says, or else where the edges say that they are. In their order, none twice. */
export async function edgeAddresses(db: Db, { edgeAddresses: named }: Config["domains"]): Promise<string[]> {
  if (named.length > 0) return [...new Set(named)];
  const edges = await db
    .selectFrom("node")
    .select("address")
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .orderBy("created_at")
    .execute();
  return [...new Set(edges.flatMap(({ address }) => (address !== null && isIP(address) !== 0 ? [address] : [])))];
}
