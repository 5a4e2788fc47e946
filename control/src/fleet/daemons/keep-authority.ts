import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Authority } from "../ca/authority.ts";
import { finishRotation } from "../ca/rotation/rotate.ts";
import { type AskableSession, toAsk } from "../ca/rotation/rules.ts";
import { authorityTopic, noteTrust } from "../ca/store.ts";
import type { LeafCheck } from "../sessions/leaf-check.ts";
import type { LiveSession, Roster } from "../sessions/roster.ts";
import type { RotatingCredentials } from "./server.ts";

export interface AuthorityKeeperDeps {
  db: Db;
  authority: Authority;
  /** What the ports' certificates were made for. */
  shownTrust: string;
  leaves: LeafCheck;
  /** Of every port that daemons dial. */
  ports: readonly RotatingCredentials[];
  roster: Roster;
  listener: Listener;
  log: Log;
  clock: Clock;
}

/** Long before the year of a server certificate is over. */
const serverRenewalMs = 20 * 86_400_000;

/**
 * Keeps this replica up with the cluster's authority until the signal: reads it again, shows the ports' certificates of
 * it, renews those in time, and while the authority is being replaced moves the daemons whose streams it has. When it was
 * replaced, streams end that were opened with a certificate of the one before. Every replica does so by itself, and any
 * may find that all have moved.
 */
export async function keepAuthority(deps: AuthorityKeeperDeps, everyMs: number, signal: AbortSignal): Promise<void> {
  const { db, authority, ports, leaves, roster, listener, log, clock } = deps;
  const wake = createWake(clock);
  using _ = listener.on(authorityTopic, wake.signal);
  const asked = new WeakMap<LiveSession, number>();
  let shownAt = clock.now().getTime();
  let { shownTrust } = deps;

  async function show(): Promise<void> {
    if (shownTrust === authority.trust && clock.now().getTime() - shownAt < serverRenewalMs) return;
    const { trust, trusted } = authority;
    const own = await authority.issueServer(clock.now());
    for (const port of ports) port.rotate(trusted, own);
    shownTrust = trust;
    shownAt = clock.now().getTime();
    log.info({ caSha256: authority.caSha256 }, "the ports have a new certificate");
  }

  async function follow(): Promise<void> {
    // Whoever else reads it again finds the change first: what the ports show tells whether there is one.
    await authority.refresh();
    if (shownTrust !== authority.trust) {
      log.info({ caSha256: authority.caSha256, previous: authority.previousSha256 }, "the authority changed");
    }
    await show();
    endReplaced(roster, leaves);
  }

  const runOnce = async (): Promise<void> => {
    await follow();
    if (authority.previousSha256 !== null) {
      await noteTrust(
        db,
        [...roster.all()].map(({ identity }) => ({ id: identity.id, trust: identity.certificate.trust })),
      );
      if (await finishRotation(db, clock.now())) {
        log.info({ caSha256: authority.caSha256 }, "every daemon has moved: the authority before is dropped");
        await follow();
      }
    }
    const sessions = [...roster.all()].map((session) => ({
      session,
      trust: session.identity.certificate.trust,
      askedAtMs: asked.get(session) ?? null,
    })) satisfies (AskableSession & { session: LiveSession })[];
    for (const { session } of toAsk(sessions, { trust: authority.trust, nowMs: clock.bootMs() })) {
      asked.set(session, clock.bootMs());
      session.askToRenew();
    }
  };
  const onError = (error: unknown) => log.warn({ err: error }, "the authority could not be looked after");
  await runLoop({ clock, wake, periodMs: everyMs, signal, onError }, runOnce);
}

/** Ends streams whose certificate is of an authority that was dropped. */
function endReplaced(roster: Roster, leaves: LeafCheck): void {
  for (const { identity, close } of roster.all()) {
    if (!leaves.isInForce(identity.certificate.leaf))
      close({ why: "go away", reconnectAfterMs: 0, reason: "its certificate is of an authority that was replaced" });
  }
}

/** Ends streams whose certificate is over. A daemon that has renewed is back at once with the new one. */
export function endOverdue(roster: Roster, now: Date): void {
  for (const { identity, close } of roster.all()) {
    if (identity.certificate.endsAt <= now)
      close({ why: "go away", reconnectAfterMs: 0, reason: "its certificate is over" });
  }
}
