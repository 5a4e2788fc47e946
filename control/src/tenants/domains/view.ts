// @pure
import { type CustomDomain, type DomainRecords, leadsHere } from "@svc/proto";
import { isApex, proofName, proofValue } from "@svc/proto/domains";
import type { Domain } from "../../stores/db/tables.ts";

/** Where names have to lead. */
export interface EdgePlace {
  host: string;
  addresses: readonly string[];
}

const isV6 = (address: string): boolean => address.includes(":");
const text = (at: Date | null): string | null => at?.toISOString() ?? null;

/**
 * A domain as its owner sees it.
 *
 * @param redirectTo host that it is to lead to, whether or not it does now
 * @param certificate null: the installation gets none for domains
 */
export function domainView(
  row: Domain,
  place: EdgePlace,
  redirectTo: string | null,
  certificate: CustomDomain["certificate"],
): CustomDomain {
  const isSettled = row.status === "verified" && row.failing_since === null && leadsHere(row.dns_status);
  return {
    ...{ id: row.id, domain: row.domain, status: row.status, routingTarget: row.routing_target },
    ...{ redirectTo, hsts: hstsOf(row), dnsStatus: row.dns_status ?? "unresolved", reason: row.reason },
    ...{ verifyUntil: text(row.verify_until), verifiedAt: text(row.verified_at) },
    ...{ lastCheckedAt: text(row.last_checked_at), createdAt: row.created_at.toISOString(), certificate },
    ...(!isSettled && { records: recordsOf(row, place) }),
  };
}

const hstsOf = (row: Pick<Domain, "hsts_max_age_seconds" | "hsts_include_subdomains">): CustomDomain["hsts"] =>
  row.hsts_max_age_seconds === null
    ? null
    : { maxAgeSeconds: row.hsts_max_age_seconds, includeSubdomains: row.hsts_include_subdomains };

function recordsOf({ domain, txt_token: token }: Domain, { host, addresses }: EdgePlace): DomainRecords {
  const aRecordIps = addresses.filter((address) => !isV6(address));
  return {
    ...{ txtName: proofName(domain), txtValue: proofValue(token), cnameTarget: host },
    ...{ aRecordIp: aRecordIps[0] ?? null, aRecordIps, aaaaRecordIps: addresses.filter(isV6), apex: isApex(domain) },
  };
}
