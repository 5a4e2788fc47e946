// @pure
import { counted, type Finding, listed, ok, warn } from "../finding.ts";

/** Custom domains of everybody. */
export interface DomainHealth {
  verified: number;
  pending: number;
  /** Verified ones whose proof is gone, as `domain (project)`: the oldest such first. */
  failing: readonly string[];
  /** Those that should serve and lead elsewhere. */
  elsewhere: readonly string[];
}

const tellOwners = "Their owners are told by mail; `svc domains ls` shows them the records.";

/** @param servers how many DNS servers are asked */
export function judgeDomains({ verified, pending, failing, elsewhere }: DomainHealth, servers: number): Finding[] {
  if (verified + pending === 0) return [ok("There are no custom domains.")];
  const findings = [ok(`${counted(verified, "custom domain")} verified, ${pending} pending.`)];
  if (failing.length > 0)
    findings.push(warn(`The proof is gone of ${listed(failing)}: after seven days they stop serving.`, tellOwners));
  if (elsewhere.length > 0)
    findings.push(warn(`DNS does not lead here for ${listed(elsewhere)}, which are verified.`, tellOwners));
  if (servers < 2)
    findings.push(
      warn(
        `Proofs of domains are believed of ${servers === 0 ? "no" : "a single"} DNS server.`,
        "Name two that do not depend on one another in SVC_DNS_SERVERS.",
      ),
    );
  return findings;
}
