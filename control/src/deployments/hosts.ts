import { randomBytes } from "node:crypto";
import { type Channel, siteLabel } from "@svc/proto";
import type { Db } from "../db/pool.ts";

const attemptsMax = 5;

/**
 * The host that a channel of a project answers to; claimed on first use and kept. Names of two projects can
 * meet only among previews ("shop--3" and pull request 3 of "shop"), and then the later one gets a suffix.
 */
export async function claimHost(
  tx: Db,
  project: { id: string; slug: string },
  { channel, prNumber }: { channel: Channel; prNumber: number | null },
  contentDomain: string,
): Promise<string> {
  const existing = await tx
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", project.id)
    .where("channel", "=", channel)
    .where("pr_number", "is not distinct from", prNumber)
    .orderBy("host")
    .executeTakeFirst();
  if (existing !== undefined) return existing.host;
  const label = siteLabel({ slug: project.slug, channel, prNumber });
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const suffix = attempt === 0 ? "" : `-${randomBytes(3).toString("hex")}`;
    const claimed = await tx
      .insertInto("site_host")
      .values({ host: `${label}${suffix}.${contentDomain}`, project_id: project.id, channel, pr_number: prNumber })
      .onConflict((conflict) => conflict.doNothing())
      .returning("host")
      .executeTakeFirst();
    if (claimed !== undefined) return claimed.host;
  }
  throw new Error(`no free host name for ${label}`);
}
