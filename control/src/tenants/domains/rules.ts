// @pure

import { type CustomDomain, type DomainStatus, type ErrorCode, limits, plural, type RoutingTarget } from "@svc/proto";
import { apexOf, wwwTwinOf } from "@svc/proto/domains";

/** Why something is refused, in a sentence for people. */
export interface Refusal {
  code: ErrorCode;
  message: string;
}

/** What a plan says of custom domains. */
export interface DomainPlan {
  maxCustomDomains: number;
  previewsEnabled: boolean;
  devSyncEnabled: boolean;
}

/** Another claim of a name, or an earlier one of the same project. */
export interface Claim {
  status: DomainStatus;
  isOwn: boolean;
  /** The other project is of the same owner. */
  isOfOwner: boolean;
  /** Its proof is gone, and the name will be its project's no more. */
  isFailing: boolean;
}

/**
 * What stands against attaching a domain. Exact while the project and the name are locked.
 *
 * @param count domains that the project has
 * @param claims of the same name
 */
export function additionRefusal(plan: DomainPlan, count: number, claims: readonly Claim[]): Refusal | null {
  const { maxCustomDomains } = plan;
  if (maxCustomDomains === 0) return noDomains;
  if (claims.some(({ isOwn }) => isOwn)) return { code: "CONFLICT", message: "The project has that domain already." };
  if (claims.some(({ status, isFailing }) => status === "verified" && !isFailing))
    return { code: "CONFLICT", message: "Another project has proven that domain." };
  // Strangers' claims do not count: whoever filed many could keep a name from the one whose it is.
  if (claims.filter(({ status, isOfOwner }) => status === "pending" && isOfOwner).length >= limits.domainClaimsPerName)
    return { code: "CONFLICT", message: "Too many projects of the owner claim that domain." };
  if (count >= maxCustomDomains)
    return {
      code: "QUOTA_EXCEEDED",
      message: `The plan allows ${plural(maxCustomDomains, "custom domain")} per project.`,
    };
  return null;
}

const unavailable = (what: string): Refusal => ({
  code: "PLAN_FEATURE_UNAVAILABLE",
  message: `The plan does not include ${what}.`,
});
const noDomains = unavailable("custom domains");

/** What stands against leading a domain to a channel. That there is no deployment of it yet does not. */
export function routeRefusal(plan: DomainPlan, target: RoutingTarget): Refusal | null {
  if (target === "preview" && !plan.previewsEnabled) return unavailable("previews");
  if (target === "dev" && !plan.devSyncEnabled) return unavailable("the dev channel");
  return null;
}

/**
 * What stands against having browsers ask for a domain over TLS alone. That they are told less, or to forget it, is always
 * allowed: nobody is to be caught in it.
 *
 * @param maxAgeSeconds null: they are told nothing
 */
export function hstsRefusal(maxAgeSeconds: number | null, certificate: CustomDomain["certificate"]): Refusal | null {
  if (maxAgeSeconds === null || maxAgeSeconds === 0 || certificate?.status === "issued") return null;
  return {
    code: "CONFLICT",
    message: "The domain has no certificate yet; without one, browsers that asked over TLS alone would not reach it.",
  };
}

/** A domain of a project, as far as another one could be sent there. */
export interface RedirectTarget {
  domain: string;
  status: DomainStatus;
  target: RoutingTarget;
  /** It sends its visitors on itself. */
  isRedirect: boolean;
}

/**
 * What stands against sending visitors of `domain` on to `target`. Whoever is sent on is there: where one domain leads, no
 * domain leads on, so there is no circle and no second way.
 *
 * @param target null: the project's own host
 * @param isLedTo other domains of the project lead to `domain`
 */
export function redirectRefusal(domain: string, target: RedirectTarget | null, isLedTo: boolean): Refusal | null {
  if (target?.domain === domain) return { code: "VALIDATION", message: "redirectTo: A domain cannot lead to itself." };
  if (isLedTo)
    return { code: "CONFLICT", message: `Other domains redirect to ${domain}; have them lead somewhere else first.` };
  if (target === null) return null;
  if (target.status !== "verified") return { code: "CONFLICT", message: `${target.domain} is not verified.` };
  if (target.target === "disabled") return { code: "CONFLICT", message: `${target.domain} is disabled.` };
  if (target.isRedirect)
    return { code: "CONFLICT", message: `${target.domain} redirects itself; name the domain that it leads to.` };
  return null;
}

// ------------------------------------------------------------- hosts

/** A name that a project has proven. */
export interface ProvenDomain {
  id: string;
  projectId: string;
  domain: string;
  target: RoutingTarget;
  /** Host to which its visitors are sent, which serves; null: there is none, and it serves itself. */
  redirectTo: string | null;
}

/** A name at which edges answer. */
export interface CustomHost {
  host: string;
  domainId: string;
  projectId: string;
  channel: Exclude<RoutingTarget, "disabled">;
  /** Null: it serves. */
  redirectTo: string | null;
}

/** Names whose hosts a change of `domain` can change, itself first. */
export function concernedNames(domain: string): string[] {
  const apex = apexOf(domain);
  const twin = wwwTwinOf(apex);
  if (domain === apex && twin !== null) return [domain, twin];
  return domain === twin ? [domain, apex] : [domain];
}

/**
 * The hosts that names have by who has proven them. An apex brings its www along, unless somebody has proven that by itself:
 * then it is theirs, also while it is disabled.
 *
 * @param proven of all names of `concernedNames`
 */
export function hostsOf(proven: readonly ProvenDomain[]): CustomHost[] {
  const names = new Set(proven.map(({ domain }) => domain));
  return proven.flatMap(({ id: domainId, projectId, domain, target, redirectTo }) => {
    if (target === "disabled") return [];
    const twin = wwwTwinOf(domain);
    const own: CustomHost = { host: domain, domainId, projectId, channel: target, redirectTo };
    // After its target, to which it refers.
    return twin === null || names.has(twin) ? [own] : [own, { ...own, host: twin, redirectTo: redirectTo ?? domain }];
  });
}
