// @pure
import { type CustomDomain, leadsHere } from "@svc/proto";
import type { CertificateFacts } from "../../fleet/certificates/facts.ts";
import { isServed } from "../../fleet/certificates/rules.ts";
import type { Domain } from "../../stores/db/tables.ts";

/**
 * A domain's certificate as its owner sees it. One that cannot be renewed is `issued` for as long as it is good, with the
 * reason beside it.
 *
 * @param facts null: nobody has begun
 */
export function certificateView(
  domain: Pick<Domain, "status" | "routing_target" | "dns_status">,
  facts: CertificateFacts | null,
  now: Date,
): NonNullable<CustomDomain["certificate"]> {
  const notAfter = facts?.held?.notAfter ?? null;
  if (!isServed(domain) || (notAfter === null && !leadsHere(domain.dns_status)))
    return { status: "none", notAfter: null, reason: null };
  const reason = facts?.failure?.text ?? null;
  const told = { notAfter: notAfter?.toISOString() ?? null, reason };
  if (notAfter !== null && notAfter > now) return { status: "issued", ...told };
  return { status: reason === null ? "pending" : "failed", ...told };
}
