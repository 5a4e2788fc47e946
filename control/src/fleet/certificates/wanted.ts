import { apexOf, wwwTwinOf } from "@svc/proto/domains";
import type { Db } from "../../stores/db/pool.ts";
import { isWanted } from "./rules.ts";

/** A name that edges are to serve over TLS. */
export interface WantedName {
  name: string;
  registeredDomain: string;
  /** For the twin of an apex: the apex. Nobody said that its records lead here, so that is looked up. */
  twinOf: string | null;
}

/**
 * Names of custom domains that are proven, enabled and lead here, and their twins; and the wildcard, if there is one. Those
 * of one registered domain only when it is given.
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
    .select(["domain", "status", "routing_target", "dns_status"])
    .where("status", "=", "verified")
    .$if(registeredDomain !== null, (query) =>
      query.where((where) =>
        where.or([where("domain", "=", registeredDomain ?? ""), where("domain", "like", `%.${registeredDomain}`)]),
      ),
    )
    .execute();
  const wanted = new Map<string, WantedName>();
  const add = (name: string, twinOf: string | null): void => {
    const below = apexOf(name.replace(/^\*\./, ""));
    if (registeredDomain === null || below === registeredDomain)
      wanted.set(name, { name, registeredDomain: below, twinOf });
  };
  // Whoever proved the twin itself decides about it.
  const proven = new Set(rows.map(({ domain }) => domain));
  for (const { domain } of rows.filter(isWanted)) {
    add(domain, null);
    const twin = wwwTwinOf(domain);
    if (twin !== null && !proven.has(twin)) add(twin, domain);
  }
  if (wildcard !== null) add(wildcard, null);
  return wanted;
}
