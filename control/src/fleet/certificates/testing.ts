import { randomUUID } from "node:crypto";
import type { Insertable } from "kysely";
import type { CustomDomainTable } from "../../stores/db/gen/tables.ts";
import type { Db } from "../../stores/db/pool.ts";

/** A domain of a project of its own: proven, enabled and leading here, unless something else is said. */
export async function aDomain(
  db: Db,
  domain: string,
  changes: Partial<Insertable<CustomDomainTable>> = {},
): Promise<{ id: string; projectId: string }> {
  const ownerId = randomUUID();
  await db
    .insertInto("auth.user")
    .values({ id: ownerId, name: "Owner", email: `${ownerId}@shop.test`, emailVerified: true } as never)
    .execute();
  const projectId = randomUUID();
  await db
    .insertInto("project")
    .values({ id: projectId, owner_id: ownerId, name: "Shop", slug: `shop-${projectId}`, type: "static" } as never)
    .execute();
  const id = randomUUID();
  await db
    .insertInto("custom_domain")
    .values({
      ...{ id, project_id: projectId, domain, status: "verified", routing_target: "production" },
      ...{ txt_token: randomUUID(), dns_status: "direct", created_at: new Date("2030-01-01T00:00:00Z") },
      ...changes,
    })
    .execute();
  return { id, projectId };
}
