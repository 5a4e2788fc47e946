// @pure
import type { AcmeTrouble } from "./acme/problem.ts";
import { askAgainMs, pauseAfterMs, renewalMoment, type Validity } from "./rules.ts";

/** How far the next certificate of a name is. With `issued` there is one, and nothing under way; with the others there may be an older one. */
export type CertificateState = "none" | "ordered" | "challenge_published" | "validating" | "issued" | "failed";

/** What edges show for a name. */
export interface Held extends Validity {
  /** Directory of the CA. */
  issuer: string;
  /** By which its CA gives advice on renewals; null: it gives none. */
  ariId: string | null;
}

/** An order at a CA, from the moment that it was placed. */
export interface Order {
  directory: string;
  url: string;
  orderedAt: Date;
}

/** A name, its certificate, and the way of the next one. */
export interface Certificate {
  name: string;
  state: CertificateState;
  held: Held | null;
  order: Order | null;
  /** When it came into its state. */
  since: Date;
  renewAt: Date | null;
  askAt: Date | null;
  failures: number;
  /** Of these those that were the CA's fault. */
  caFailures: number;
  /** Not to be looked at before. */
  nextAt: Date;
}

export interface Circumstances {
  /** Whether a CA is to be asked for the name: it is to be served over TLS, and leads here. */
  isWanted: boolean;
  /** Whether everybody whom the CA may ask gives the answer that it looks for. */
  isAnswered: boolean;
  now: Date;
}

export type Step =
  /** Nothing, until something else changes. */
  | { do: "rest" }
  | { do: "wait"; until: Date }
  /** Place an order, if limits and the name's own records allow it. */
  | { do: "order" }
  /** Make the answer known to those whom the CA may ask. */
  | { do: "publish" }
  /** Let the CA ask. */
  | { do: "start" }
  /** See what became of the order, and take the certificate. */
  | { do: "look" }
  /** Ask the CA when it wants the certificate to be renewed. */
  | { do: "ask" }
  | { do: "give up"; why: Failure }
  /** Nobody wants it any more. */
  | { do: "drop" };

/** Why an order came to nothing: a word for programs, and a sentence for people. */
export interface Failure {
  code: string;
  text: string;
  /** The CA did not do its part: another one might. */
  isCas: boolean;
  /** How long the CA wants to be left alone; null when it did not say. */
  retryAfterMs: number | null;
  /** It was found before any CA was asked. */
  isForeseen?: true;
}

const orderMs = 60 * 60_000;
/** Edges that are behind, or records of DNS that are not seen yet, are waited for so long and then no longer in the way of other names. */
const answeredWithinMs = 10 * 60_000;
const validatedWithinMs = 15 * 60_000;
/** Work that is under way is taken up again by the next round if whoever did it forgot it. */
export const forgottenAfterMs = 60_000;

/** Before a CA that was away is asked about an order again. */
const awayMs = 10_000;
/** A CA that wants to be left alone for longer than this is as good as one that does not do its part. */
const patienceMs = 10 * 60_000;

/**
 * In how many milliseconds a CA is asked again about an order that it has taken, when it is away or wants to be left alone: what was placed
 * counts against its limits, and is not given up for a bad moment. Null: the order is.
 *
 * @param trouble of what was asked last
 */
export function orderPauseMs(trouble: AcmeTrouble, retryAfterMs: number | null): number | null {
  if (trouble !== "away" && trouble !== "limited") return null;
  const ms = Math.max(retryAfterMs ?? 0, awayMs);
  return ms > patienceMs ? null : ms;
}

const own = (code: string, text: string): Failure => ({ code, text, isCas: false, retryAfterMs: null });

/** The next thing to do for a name. */
export function nextStep(certificate: Certificate, { isWanted, isAnswered, now }: Circumstances): Step {
  const { state, order, since, renewAt, askAt, nextAt } = certificate;
  if (!isWanted) return order === null ? { do: "rest" } : { do: "drop" };
  const isPast = (from: Date, ms: number): boolean => now.getTime() - from.getTime() > ms;
  const isDue = (at: Date | null): boolean => at !== null && at <= now;
  if (order !== null && isPast(order.orderedAt, orderMs))
    return {
      do: "give up",
      // Nobody but the CA is waited for before there is a challenge.
      why: { ...own("expired", "The order was not done within an hour."), isCas: state === "ordered" },
    };
  switch (state) {
    case "none":
    case "failed":
      return isDue(nextAt) ? { do: "order" } : { do: "wait", until: nextAt };
    case "issued":
      if (isDue(renewAt)) return isDue(nextAt) ? { do: "order" } : { do: "wait", until: nextAt };
      if (isDue(askAt)) return { do: "ask" };
      return { do: "wait", until: soonest(renewAt, askAt) ?? nextAt };
    case "ordered":
      return { do: "publish" };
    case "challenge_published":
      if (isAnswered) return { do: "start" };
      if (isPast(since, answeredWithinMs))
        return {
          do: "give up",
          why: own("not-answered", "Not every edge, or server of DNS, gave the answer in time."),
        };
      return { do: "wait", until: now };
    case "validating":
      if (isPast(since, validatedWithinMs))
        return { do: "give up", why: { ...own("slow", "The CA did not decide in time."), isCas: true } };
      return { do: "look" };
  }
}

const soonest = (...dates: (Date | null)[]): Date | null =>
  dates.reduce((least, date) => (date !== null && (least === null || date < least) ? date : least), null);

type Change = Partial<Omit<Certificate, "name">>;

/** The order has been placed, or is in its next state. */
export const moved = (state: CertificateState, order: Order, now: Date): Change => ({
  ...{ state, order },
  since: now,
  nextAt: new Date(now.getTime() + forgottenAfterMs),
});

/** @param random from 0 up to 1 */
export function failed(certificate: Certificate, why: Failure, now: Date, random: number): Change {
  const failures = certificate.failures + 1;
  const told = { wasAsked: why.isForeseen !== true, retryAfterMs: why.retryAfterMs };
  return {
    ...{ state: "failed", order: null, since: now, failures },
    caFailures: why.isCas ? certificate.caFailures + 1 : 0,
    nextAt: new Date(now.getTime() + pauseAfterMs(failures, told, random)),
  };
}

/** @param random from 0 up to 1 */
export function issued(held: Held, now: Date, random: number): Change {
  const renewAt = renewalMoment(held, random);
  const askAt = held.ariId === null ? null : new Date(now.getTime() + askAgainMs(null) * random);
  return {
    ...{ state: "issued", order: null, since: now, failures: 0, caFailures: 0, held },
    ...{ renewAt, askAt, nextAt: soonest(renewAt, askAt) ?? renewAt },
  };
}

/** What the CA advised: another moment, or (null) nothing. */
export function advised(
  certificate: Certificate,
  advice: { renewAt: Date; retryAfterMs: number | null } | null,
  now: Date,
): Change {
  const renewAt = advice?.renewAt ?? certificate.renewAt;
  const askAt = new Date(now.getTime() + askAgainMs(advice?.retryAfterMs ?? null));
  return { renewAt, askAt, nextAt: soonest(renewAt, askAt) ?? askAt };
}

/** Nobody wants it any more: what was under way is forgotten. What is held stays for whoever comes back. */
export const dropped = (certificate: Certificate, now: Date): Change => ({
  state: certificate.held === null ? "none" : "issued",
  order: null,
  since: now,
  nextAt: now,
});
