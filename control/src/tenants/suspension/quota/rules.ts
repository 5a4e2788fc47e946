// @pure
/** What a plan allows its users in a calendar month (UTC). Null: as much as they like; 0: nothing. */
export interface Allowance {
  requests: number | null;
  /** In MiB, in and out together. */
  bandwidthMb: number | null;
}

/** What a user's projects, deleted ones included, have used of it. */
export interface MonthUse {
  requests: number;
  /** In and out together. */
  bytes: number;
}

/** `near`: at 80 %. `over`: nothing is left. */
export type Standing = "within" | "near" | "over";

export interface OwnedProject {
  id: string;
  suspendReason: "quota" | "admin" | null;
  /** A suspended one that is on its way back. */
  isResuming: boolean;
  /** Until when it runs whatever was used; null: no longer than others. */
  waivedUntil: Date | null;
}

export interface OwnerFacts {
  now: Date;
  allowance: Allowance;
  use: MonthUse;
  /** What the owner was told of this month. */
  told: "near" | "over" | null;
  projects: readonly OwnedProject[];
}

export interface QuotaDecision {
  /** Ids of projects to suspend. */
  suspend: string[];
  /** Ids of projects to resume. */
  resume: string[];
  /** What the owner is to be told. */
  tell: "near" | "over" | null;
}

const nearPercent = 80;
const mebibyte = 1024 * 1024;

/** How much of the allowance is used: of requests or bandwidth, whichever is further. */
export function standing({ requests, bandwidthMb }: Allowance, use: MonthUse): Standing {
  const parts = [
    { used: use.requests, allowed: requests },
    { used: use.bytes, allowed: bandwidthMb === null ? null : bandwidthMb * mebibyte },
  ];
  const reached = (percent: number) =>
    parts.some(({ used, allowed }) => allowed !== null && used * 100 >= allowed * percent);
  return reached(100) ? "over" : reached(nearPercent) ? "near" : "within";
}

/**
 * What is to happen to a user's projects. Once the month's allowance is used up all of them are suspended, but for those
 * that an administrator has let run on; when there is some left again (a new month, a larger plan) those that were
 * suspended for it come back. What an administrator suspended stays so.
 */
export function decide({ now, allowance, use, told, projects }: OwnerFacts): QuotaDecision {
  const is = standing(allowance, use);
  if (is !== "over") {
    const resume = projects.filter(({ suspendReason, isResuming }) => suspendReason === "quota" && !isResuming);
    return { suspend: [], resume: ids(resume), tell: is === "near" && told === null ? "near" : null };
  }
  const suspend = projects.filter(({ suspendReason, isResuming, waivedUntil }) => {
    if (waivedUntil !== null && waivedUntil > now) return false;
    return suspendReason === null || (suspendReason === "quota" && isResuming);
  });
  return { suspend: ids(suspend), resume: [], tell: suspend.length > 0 && told !== "over" ? "over" : null };
}

/** What becomes of a notice that waits: it is sent, or dropped, and then its owner counts as told of `told`. */
export type NoticeStep = { do: "send" } | { do: "drop"; told: OwnerFacts["told"] };

/**
 * Sent if it is so still that most is used, or that projects are off the air because all is. Otherwise nobody counts as told of
 * it: once it is so again, they are.
 */
export function noticeStep({ allowance, use, told, projects }: OwnerFacts, level: "near" | "over"): NoticeStep {
  const isSo =
    level === "near"
      ? standing(allowance, use) === "near"
      : projects.some(({ suspendReason, isResuming }) => suspendReason === "quota" && !isResuming);
  if (isSo) return { do: "send" };
  return { do: "drop", told: told !== level ? told : level === "over" ? "near" : null };
}

const ids = (projects: readonly OwnedProject[]) => projects.map(({ id }) => id);

/** The first day of the month (UTC) of `now`, as YYYY-MM-DD. */
export const monthOf = (now: Date): string => `${now.toISOString().slice(0, 7)}-01`;

/** When the month of `now` is over. */
export const monthEnd = (now: Date): Date => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
