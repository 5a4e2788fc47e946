import type { ChangeDomainInput } from "@svc/proto";
import { readDomain } from "@svc/proto/domains";
import type { Config } from "../../../settings/settings.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { DomainChange } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { hstsRefusal, redirectRefusal, routeRefusal } from "../rules.ts";
import { findHome, listDomains } from "../store.ts";
import { certificatesOf } from "./answer.ts";
import type { LockedDomain } from "./locked.ts";
import { loadDomainPlan, throwIf } from "./refuse.ts";

/** Where `redirectTo` of a request leads, as it is kept. Throws VALIDATION and CONFLICT. */
async function redirectOf(
  tx: Db,
  { project, domain, followers }: LockedDomain,
  redirectTo: string | null,
): Promise<Pick<DomainChange, "redirect_domain_id" | "redirects_home">> {
  if (redirectTo === null) return { redirect_domain_id: null, redirects_home: false };
  const isLedTo = followers.length > 0;
  // What is no name of anybody's to attach may still be the project's own host.
  const read = readDomain(redirectTo, []);
  const name = "domain" in read ? read.domain : redirectTo.toLowerCase();
  if (name === (await findHome(tx, project.id))) {
    throwIf(redirectRefusal(domain.domain, null, isLedTo));
    return { redirect_domain_id: null, redirects_home: true };
  }
  const target = (await listDomains(tx, project.id)).find((each) => each.domain === name);
  if (target === undefined)
    throw new Refused("VALIDATION", "redirectTo: That is neither a domain of this project nor its own host.");
  const facts = { domain: name, status: target.status, target: target.routing_target };
  const isRedirect = target.redirect_domain_id !== null || target.redirects_home;
  throwIf(redirectRefusal(domain.domain, { ...facts, isRedirect }, isLedTo));
  return { redirect_domain_id: target.id, redirects_home: false };
}

/** What a request changes; the rest stays as it is. Throws what stands against it. */
export async function changeOf(
  tx: Db,
  config: Config,
  locked: LockedDomain,
  { routingTarget, redirectTo, hsts }: ChangeDomainInput,
): Promise<DomainChange> {
  const { project, domain } = locked;
  if (routingTarget !== undefined) throwIf(routeRefusal(await loadDomainPlan(tx, project.owner_id), routingTarget));
  if (hsts !== undefined) {
    const routed = { ...domain, ...(routingTarget !== undefined && { routing_target: routingTarget }) };
    const certificates = await certificatesOf(tx, config, [routed]);
    throwIf(hstsRefusal(hsts?.maxAgeSeconds ?? null, certificates.get(domain.id) ?? null));
  }
  return {
    ...(routingTarget !== undefined && { routing_target: routingTarget }),
    ...(redirectTo !== undefined && (await redirectOf(tx, locked, redirectTo))),
    ...(hsts !== undefined && {
      hsts_max_age_seconds: hsts?.maxAgeSeconds ?? null,
      hsts_include_subdomains: hsts?.includeSubdomains ?? false,
    }),
  };
}
