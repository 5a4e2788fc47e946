// @pure
import type { CertificateFacts } from "../../../../fleet/certificates/facts.ts";
import { isRunningOut } from "../../../../fleet/certificates/rules.ts";
import { counted, type Finding, fail, listed, ok, warn } from "../finding.ts";

/** A name that edges are to serve over TLS. */
export interface SiteCertificate extends CertificateFacts {
  /** The redirecting twin of an apex, of which nobody said that it leads here. */
  isTwin: boolean;
}

/** An edge that a CA may meet when it looks whether a name is ours. */
export interface IssuingEdge {
  name: string;
  /** Whether it says what it answers CAs: one that is silent, or of a version that does not know of it, does not. */
  isThere: boolean;
  /** Challenges that it has not answered for a minute or longer. */
  lacks: number;
  /** Why certificates are not in force there. */
  problem: string | null;
}

/** @param edges null: nobody gets certificates */
export function judgeIssuingEdges(edges: readonly IssuingEdge[] | null): Finding[] {
  const silent = edges?.filter(({ isThere }) => !isThere) ?? [];
  const late = edges?.filter(({ isThere, lacks }) => isThere && lacks > 0) ?? [];
  const names = (some: readonly IssuingEdge[]): string => listed(some.map(({ name }) => name));
  const findings: Finding[] = [];
  if (silent.length > 0)
    findings.push(
      warn(
        `No custom domain gets a certificate, or another one, because of ${names(silent)}: in rotation, and not heard of what it answers CAs.`,
        "A CA may meet it. Start its router, of this version, or take it out of rotation: `svc admin nodes cordon <edge>`.",
      ),
    );
  if (late.length > 0)
    findings.push(
      warn(
        `Certificates wait for ${names(late)}, where visitors do not get what CAs are to be answered.`,
        "Look at its Caddy and its router's log, or take it out of rotation: `svc admin nodes cordon <edge>`.",
      ),
    );
  for (const { name, problem } of edges ?? [])
    if (problem !== null)
      findings.push(
        warn(
          `${name} has not all certificates: ${problem}.`,
          "It shows what it had of these names before. It is told again, at last every ten minutes.",
        ),
      );
  return findings;
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
