// @pure

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** What CAs ask their clients to wait after so many failures in a row. */
/** The longest that a name waits for which no CA was asked. */
const unaskedMs = 100 * minuteMs;
const backOffsMs = [minuteMs, 10 * minuteMs, unaskedMs];

/**
 * How long after `failures` failures in a row a name is left alone, up to a fifth longer so that names that failed together
 * do not come back together, and never shorter than the CA said. A name for which no CA was asked costs it nothing, and nobody says
 * when its records are put right: it never waits for a day.
 *
 * @param random from 0 up to 1
 */
export function pauseAfterMs(
  failures: number,
  { wasAsked, retryAfterMs }: { wasAsked: boolean; retryAfterMs: number | null },
  random: number,
): number {
  const ms = backOffsMs[failures - 1] ?? (wasAsked ? dayMs : unaskedMs);
  return Math.max(ms * (1 + random / 5), retryAfterMs ?? 0);
}

/** What is known of the certificate that edges show for a name. */
export interface Validity {
  notBefore: Date;
  notAfter: Date;
}

const lifeMs = ({ notBefore, notAfter }: Validity): number => notAfter.getTime() - notBefore.getTime();
/** Of those that live shorter, half of the life is left to find a fault in. */
const shortLifeMs = 10 * dayMs;

/**
 * When to renew a certificate of a CA that gives no advice: with a third of its life left, or half if it is a short one, and
 * up to a 50th of its life earlier, so that those that came together do not go together.
 *
 * @param random from 0 up to 1
 */
export function renewalMoment(held: Validity, random: number): Date {
  const life = lifeMs(held);
  const left = life < shortLifeMs ? life / 2 : life / 3;
  return new Date(held.notAfter.getTime() - left - (life / 50) * random);
}

/** Somewhere in the window that a CA suggests; what is in the past means now. */
export const momentWithin = ({ start, end }: { start: Date; end: Date }, random: number): Date =>
  new Date(start.getTime() + (end.getTime() - start.getTime()) * random);

const askEveryMs = 12 * hourMs;
const askBounds = { leastMs: hourMs, mostMs: dayMs };

/** When to ask the CA again for its advice on renewals. */
export const askAgainMs = (retryAfterMs: number | null): number =>
  Math.min(Math.max(retryAfterMs ?? askEveryMs, askBounds.leastMs), askBounds.mostMs);

/** Whether somebody has to look: less than a quarter of the life is left, and renewals begin with a third. */
export const isRunningOut = (held: Validity, now: Date): boolean =>
  held.notAfter.getTime() - now.getTime() < lifeMs(held) / 4;

/** Whether edges are to show what is held for a custom domain: it is proven and enabled. */
export const isServed = ({ status, routing_target }: { status: string; routing_target: string }): boolean =>
  status === "verified" && routing_target !== "disabled";

/** Orders of the past that count against a limit of the CA. */
export interface Spent {
  count: number;
  /** When the oldest of them was placed; null when there is none. */
  oldest: Date | null;
}

/** All of one CA. */
export interface SpentOrders {
  /** In three hours. */
  ordered: Spent;
  /** In three hours, for names that had no certificate. */
  orderedNew: Spent;
  /** Of these those for the domains that one user has now. */
  orderedNewOfOwner: Spent;
  /** In seven days, certificates for names below one registered domain that had none. */
  issuedBelow: Spent;
  /** In seven days, certificates for the very name. */
  issuedFor: Spent;
}

export const orderWindows = { orderedMs: 3 * hourMs, issuedMs: 7 * dayMs };
/**
 * Below what the large CAs allow (300 and, of these, what is left for renewals; 50; 5). Whoever has very many domains leaves
 * some of it to others, who may come later.
 */
const orderLimits = { ordered: 300, orderedNew: 200, orderedNewOfOwner: 150, issuedBelow: 45, issuedFor: 4 };

/** When the next order may be placed: now, or a later moment at which the first limit that is reached has room again. */
export function orderMoment(spent: SpentOrders, isRenewal: boolean, now: Date): Date {
  const over = (kind: keyof SpentOrders, windowMs: number): number => {
    const { count, oldest } = spent[kind];
    return count < orderLimits[kind] || oldest === null ? 0 : oldest.getTime() + windowMs;
  };
  const { orderedMs, issuedMs } = orderWindows;
  const atMs = [over("ordered", orderedMs), over("issuedFor", issuedMs)];
  if (!isRenewal)
    atMs.push(over("orderedNew", orderedMs), over("orderedNewOfOwner", orderedMs), over("issuedBelow", issuedMs));
  return new Date(Math.max(now.getTime(), ...atMs));
}

/** So many failures in a row that are a CA's own send a name to the other one, if there is one; and so many more back. */
const patience = 3;

/** @param directories the CA that is asked first, and perhaps a second one */
export function chooseCa<T>(directories: readonly [T, ...T[]], caFailures: number): T {
  return directories[Math.floor(caFailures / patience) % directories.length] ?? directories[0];
}

/** One property of a CAA record (RFC 8659). */
export interface CaaProperty {
  critical: boolean;
  tag: string;
  value: string;
}

const knownTags = ["issue", "issuewild", "iodef", "contactemail", "contactphone", "issuemail", "issuevmc"];

/**
 * Whether the records of a name let one of `identities` (what a CA calls itself there) give a certificate for it. A CA
 * that does not say what it is called is asked, and finds out for itself.
 */
export function caaAllows(
  records: readonly CaaProperty[],
  identities: readonly string[],
  isWildcard: boolean,
): boolean {
  if (identities.length === 0) return true;
  const tagged = (tag: string) => records.filter((each) => each.tag.toLowerCase() === tag);
  if (records.some(({ critical, tag }) => critical && !knownTags.includes(tag.toLowerCase()))) return false;
  const wild = tagged("issuewild");
  const deciding = isWildcard && wild.length > 0 ? wild : tagged("issue");
  if (deciding.length === 0) return true;
  const names = identities.map((identity) => identity.toLowerCase());
  return deciding.some(({ value }) => names.includes((value.split(";")[0] ?? "").trim().toLowerCase()));
}

/** The names whose CAA records are looked for, one after the other until one has some: the name and all above it. */
export function caaPath(name: string): string[] {
  const labels = name.replace(/^\*\./, "").split(".");
  return labels.map((_, index) => labels.slice(index).join("."));
}
