// @pure
import { daemonValidityMs } from "../validity.ts";

/** A daemon of the fleet, as far as a rotation is concerned. */
export interface MovingDaemon {
  id: string;
  name: string;
  role: "node" | "edge";
  /** What it trusts, by the certificate that it presented last; null: it has not told yet. */
  trust: string | null;
  /** Null: it never had one. */
  certificateExpiresAt: Date | null;
  /** Of its sessions; null: it has had none. */
  lastSeenAt: Date | null;
  createdAt: Date;
}

/**
 * Those that would be locked out if the authority before were dropped now. Whoever trusts what is handed out now has
 * a certificate of the new authority and knows that one; a certificate that is over lets nobody in anyhow.
 *
 * A daemon that had no session for as long as a certificate lasts is waited for no more, although it may have renewed
 * its certificate meanwhile: nothing is done for it, and it must not keep an authority trusted for ever. Every other one
 * moves or drops out within that time, since the authority before issues nothing any more: a replacement ends at the
 * latest that long after the last daemon of the older authority was heard, and at once when an operator fences those
 * that it waits for. One that is locked out like that joins again with a new token.
 *
 * @param trust what is handed out now; see trust.ts
 */
export const heldUpBy = <D extends MovingDaemon>(
  daemons: readonly D[],
  { trust, now }: { trust: string; now: Date },
): D[] =>
  daemons.filter(
    (daemon) =>
      daemon.trust !== trust &&
      daemon.certificateExpiresAt !== null &&
      daemon.certificateExpiresAt > now &&
      now.getTime() - (daemon.lastSeenAt ?? daemon.createdAt).getTime() < daemonValidityMs,
  );

/** A stream of this replica, as far as it may be asked for a renewal. */
export interface AskableSession {
  /** What its holder trusts, by the certificate that the stream was opened with. */
  trust: string | null;
  /** Null: it was not asked in this stream. */
  askedAtMs: number | null;
}

/** Asked at once at most: each answers with a renewal and another stream. */
export const askedAtOnce = 30;
/** A daemon that could not renew tries again by itself; only one that did not hear the question needs another. */
const askAgainMs = 120_000;

/** Which of the streams are asked for a renewal now, because their holders trust something else than what is handed out. */
export const toAsk = <S extends AskableSession>(
  sessions: Iterable<S>,
  { trust, nowMs }: { trust: string; nowMs: number },
): S[] =>
  [...sessions]
    .filter((session) => session.trust !== trust)
    .filter(({ askedAtMs }) => askedAtMs === null || nowMs - askedAtMs >= askAgainMs)
    .sort((a, b) => (a.askedAtMs ?? Number.NEGATIVE_INFINITY) - (b.askedAtMs ?? Number.NEGATIVE_INFINITY))
    .slice(0, askedAtOnce);
