// @pure
import type { CertificateFacts } from "../../../../fleet/certificates/facts.ts";
import { isRunningOut } from "../../../../fleet/certificates/rules.ts";
import { counted, type Finding, fail, listed, ok, warn } from "../finding.ts";

/** A name that edges are to serve over TLS. */
export interface SiteCertificate extends CertificateFacts {
  /** The redirecting twin of an apex, of which nobody said that it leads here. */
  isTwin: boolean;
}

const look = "It is tried again by itself; control's log has each attempt, under `certificate`.";

/** @param certificates null: nobody gets any */
export function judgeSiteCertificates(certificates: readonly SiteCertificate[] | null, now: Date): Finding[] {
  if (certificates === null) return [];
  const held = certificates.flatMap((each) => (each.held === null ? [] : [{ ...each, held: each.held }]));
  const over = held.filter((each) => each.held.notAfter <= now);
  const late = held.filter((each) => each.held.notAfter > now && isRunningOut(each.held, now));
  const missing = certificates.filter((each) => each.held === null && each.failure !== null && !isElsewhere(each));
  const findings = [ok(`${counted(held.length - over.length, "site certificate")} in force.`)];
  if (over.length > 0)
    findings.push(fail(`Nobody reaches ${told(over)} over TLS: the certificate is over.`, `${look} ${whyOf(over)}`));
  if (late.length > 0)
    findings.push(
      warn(
        `The certificate of ${told(late)} ends soon, ${dayOf(late[0])} at first, and is not renewed.`,
        `${look} ${whyOf(late)}`,
      ),
    );
  if (missing.length > 0)
    findings.push(warn(`There is no certificate for ${told(missing)}.`, `${look} ${whyOf(missing)}`));
  return findings;
}

/** That a twin leads elsewhere is its owner's affair. */
const isElsewhere = ({ isTwin, failure }: SiteCertificate): boolean => isTwin && failure?.code === "not-pointing";

const told = (certificates: readonly SiteCertificate[]): string => listed(certificates.map(({ name }) => name));

const dayOf = (certificate: { held: { notAfter: Date } } | undefined): string =>
  certificate?.held.notAfter.toISOString().slice(0, "2030-01-31".length) ?? "";

/** Of the first of them that has something to say. */
function whyOf(certificates: readonly SiteCertificate[]): string {
  const first = certificates.find(({ failure }) => failure !== null);
  return first?.failure
    ? `The last attempt for ${first.name} ended with: ${first.failure.text}`
    : "There was no attempt.";
}
