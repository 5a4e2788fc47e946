// @pure
import { type DnsStatus, type DomainStatus, leadsHere, limits } from "@svc/proto";
import { proofName } from "@svc/proto/domains";

/** What is kept of a domain, as far as a look can change it. */
export interface DomainState {
  status: DomainStatus;
  /** Why it is not verified, or what is wrong with one that is; for people. */
  reason: string | null;
  dnsStatus: DnsStatus | null;
  /** Of a pending one: until when its proof is looked for. */
  verifyUntil: Date | null;
  verifiedAt: Date | null;
  /** Since when the proof of a verified one is gone; null: it stands. */
  failingSince: Date | null;
  /** Mails about that since then, and when the last one was due. */
  warnings: number;
  warnedAt: Date | null;
}

/** What DNS says. `unknown` is evidence of nothing. */
export interface Look {
  proof: "found" | "absent" | { unknown: string };
  /** Null: nobody knows, and what was known stays. */
  dns: { status: DnsStatus; problem: string | null } | null;
}

/**
 * What people hear of. verified: the name is the project's from now on. expired: the proof was not there in time. warned: it is
 * gone, and the name will be in some days. lost: it is gone for so long that the name is, too.
 */
export type News = "verified" | "expired" | "warned" | "lost";

export interface Verdict extends DomainState {
  /** Null: nobody looks by themselves any more. */
  nextCheckAt: Date | null;
  news: News | null;
}

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const windowMs = limits.domainWindowHours * hourMs;
const graceMs = limits.domainGraceDays * dayMs;
/** The second mail is due on the last day but one; nobody loses a name within a day of it. */
const lastWarningMs = graceMs - 2 * dayMs;
/** A day by the calendar of daily looks, which come a little late and never early. */
const aDayMs = dayMs - hourMs;
/** What was not to be known is soon asked again. */
const againMs = hourMs;
/** A look that took longer tells of another time. */
const lookMaxMs = hourMs;
/** Who has just proven a name is about to point it here. */
const settlingMs = windowMs;
const settlingEveryMs = 10 * minuteMs;

/** From so long after the window began on, a look follows after so long: soon while somebody may be waiting. */
const schedule: readonly (readonly [sinceMs: number, afterMs: number])[] = [
  [6 * hourMs, hourMs],
  [525 * secondMs, 10 * minuteMs],
  [225 * secondMs, 5 * minuteMs],
  [105 * secondMs, 2 * minuteMs],
  [45 * secondMs, minuteMs],
  [15 * secondMs, 30 * secondMs],
  [0, 15 * secondMs],
];

const after = (at: Date, ms: number): Date => new Date(at.getTime() + ms);
const sinceMs = (now: Date, at: Date): number => now.getTime() - at.getTime();

/** When a window that begins now ends. */
export const windowEnd = (now: Date): Date => after(now, windowMs);

/** When a domain whose proof is looked for until `verifyUntil` is looked at again, the last time at its end. */
export function nextPendingCheck(verifyUntil: Date, now: Date): Date {
  const elapsedMs = windowMs - sinceMs(verifyUntil, now);
  const [, afterMs] = schedule.find(([from]) => elapsedMs >= from) ?? [0, 15 * secondMs];
  const next = after(now, afterMs);
  return next < verifyUntil ? next : verifyUntil;
}

/**
 * Whether what a look found is no evidence any more: somebody else has looked since, or whoever looked was held up for so long
 * that the record may have come or gone.
 *
 * @param at when it began to ask
 * @param lastAt when the newest look of which something is kept did; null: there is none
 */
export const isOutdated = (at: Date, lastAt: Date | null, now: Date): boolean =>
  (lastAt !== null && at < lastAt) || sinceMs(now, at) > lookMaxMs;

/**
 * What a look at DNS makes of a domain.
 *
 * @param isHeld another project has proven the name, and it is still that one's
 */
export function afterLook(domain: string, state: DomainState, look: Look, isHeld: boolean, now: Date): Verdict {
  const known: DomainState = { ...state, dnsStatus: look.dns?.status ?? state.dnsStatus };
  switch (state.status) {
    case "pending":
      return afterPending(domain, known, look, isHeld, now);
    case "verified":
      return afterVerified(domain, known, look, now);
    case "failed":
      return { ...known, nextCheckAt: null, news: null };
  }
}

function afterPending(domain: string, state: DomainState, look: Look, isHeld: boolean, now: Date): Verdict {
  if (look.proof === "found" && !isHeld) {
    const verified: DomainState = {
      ...{ ...state, status: "verified", reason: look.dns?.problem ?? null, verifyUntil: null, verifiedAt: now },
      ...standing,
    };
    return { ...verified, nextCheckAt: nextVerifiedCheck(verified, now), news: "verified" };
  }
  const reason = missing(domain, look, isHeld);
  const { verifyUntil } = state;
  if (verifyUntil !== null && now < verifyUntil)
    return { ...state, reason, nextCheckAt: nextPendingCheck(verifyUntil, now), news: null };
  return {
    ...{ ...state, status: "failed", verifyUntil: null, nextCheckAt: null, news: "expired" },
    reason: `Not verified within ${limits.domainWindowHours} hours. ${reason}`,
  };
}

function missing(domain: string, { proof }: Look, isHeld: boolean): string {
  if (proof === "found" && isHeld) return "Another project has proven this name, and its proof still counts.";
  if (proof === "found" || proof === "absent") return `The TXT record ${proofName(domain)} does not have the value.`;
  return `The TXT record ${proofName(domain)} could not be read: ${proof.unknown}.`;
}

/** Of a proof that is there. */
const standing = { failingSince: null, warnings: 0, warnedAt: null } as const;

function afterVerified(domain: string, state: DomainState, look: Look, now: Date): Verdict {
  if (look.proof === "found") {
    const holds = { ...state, ...standing, reason: look.dns?.problem ?? null };
    return { ...holds, nextCheckAt: nextVerifiedCheck(holds, now), news: null };
  }
  // Whatever cannot be read now takes nothing from anybody, however long that lasts.
  if (look.proof !== "absent") return { ...state, nextCheckAt: after(now, againMs), news: null };
  const failingSince = state.failingSince ?? now;
  const forMs = sinceMs(now, failingSince);
  const failing = { ...state, failingSince, nextCheckAt: after(now, dayMs), news: null };
  const until = after(failingSince, graceMs).toISOString().slice(0, 10);
  const reason = `The TXT record ${proofName(domain)} is gone. Without it the domain stops serving after ${until}.`;
  const isWarned = state.warnedAt !== null && sinceMs(now, state.warnedAt) >= aDayMs;
  if (state.warnings >= 2 && isWarned && forMs >= graceMs)
    return {
      ...{ ...failing, ...standing, status: "failed", verifiedAt: null, nextCheckAt: null, news: "lost" },
      reason: `The TXT record ${proofName(domain)} was gone for ${limits.domainGraceDays} days.`,
    };
  const isDue = state.warnings === 0 || (state.warnings === 1 && forMs >= lastWarningMs);
  if (!isDue) return { ...failing, reason };
  return { ...failing, reason, warnings: state.warnings + 1, warnedAt: now, news: "warned" };
}

/** Daily, but often while somebody is likely to be changing where the name leads. */
function nextVerifiedCheck({ dnsStatus, verifiedAt }: DomainState, now: Date): Date {
  const isFresh = verifiedAt !== null && sinceMs(now, verifiedAt) < settlingMs;
  return after(now, !leadsHere(dnsStatus) && isFresh ? settlingEveryMs : dayMs);
}
