import { leadsHere } from "@svc/proto";
import { apexOf, wwwTwinOf } from "@svc/proto/domains";
import type { Db } from "../../stores/db/pool.ts";
import { isServed } from "./rules.ts";

/** A name that edges are to serve over TLS. */
export interface WantedName {
  name: string;
  registeredDomain: string;
  /** Whose it is; null: the platform's own. */
  ownerId: string | null;
  /** For the twin of an apex: the apex. Nobody said that its records lead here, so that is looked up. */
  twinOf: string | null;
  /**
   * Whether visitors come here by it, as far as is known: without that a CA would not either, and nothing is ordered. What is
   * held is shown all the same: records that were looked at in a bad moment must not end TLS for those who do come.
   */
  leadsHere: boolean;
}

/**
 * Names of custom domains that are proven and enabled, and their twins; and the wildcard, if there is one. Those of one
 * registered domain only when it is given.
 *
 * @param wildcard `*.` and the content domain; null when nobody writes its records
 */
export async function loadWanted(
  db: Db,
  wildcard: string | null,
  registeredDomain: string | null = null,
): Promise<Map<string, WantedName>> {
  const rows = await db
    .selectFrom("custom_domain")
    .innerJoin("project", "project.id", "custom_domain.project_id")
    .select(["domain", "custom_domain.status", "routing_target", "dns_status", "project.owner_id"])
    .where("custom_domain.status", "=", "verified")
    .$if(registeredDomain !== null, (query) =>
      query.where((where) =>
        where.or([where("domain", "=", registeredDomain ?? ""), where("domain", "like", `%.${registeredDomain}`)]),
      ),
    )
    .execute();
  const wanted = new Map<string, WantedName>();
  const add = (name: string, ownerId: string | null, twinOf: string | null, isLedHere: boolean): void => {
    const below = apexOf(name.replace(/^\*\./, ""));
    if (registeredDomain === null || below === registeredDomain)
      wanted.set(name, { name, registeredDomain: below, ownerId, twinOf, leadsHere: isLedHere });
  };
  // Whoever proved the twin itself decides about it.
  const proven = new Set(rows.map(({ domain }) => domain));
  for (const row of rows) {
    if (!isServed(row)) continue;
    // Without that no CA would come here either.
    const isLedHere = leadsHere(row.dns_status);
    add(row.domain, row.owner_id, null, isLedHere);
    const twin = wwwTwinOf(row.domain);
    if (twin !== null && !proven.has(twin)) add(twin, row.owner_id, row.domain, isLedHere);
  }
  if (wildcard !== null) add(wildcard, null, null, true);
  return wanted;
}
