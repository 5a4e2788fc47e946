import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { addNames, certificateTopic, listDue, removeChallenges } from "./store.ts";
import { loadWanted } from "./wanted.ts";
import { certificateWork, challengeName, type DnsWriter } from "./worker.ts";

export interface RoundDeps {
  clock: Clock;
  db: Db;
  wildcard: { name: string; dns: DnsWriter } | null;
  log: Log;
}

const periodMs = 15_000;
/** A change of many domains is one round. */
const restMs = 1_000;
const removeMs = 60_000;

/**
 * Sees to it that every name which is wanted is known, and that somebody works on those that are due; and removes answers to
 * CAs that have had their time. Every replica does this: all of it may be repeated, and done twice at once.
 */
export async function certificateRound({ clock, db, wildcard, log }: RoundDeps): Promise<void> {
  const now = clock.now();
  const [wanted, known] = await Promise.all([loadWanted(db, wildcard?.name ?? null), listDue(db)]);
  const names = new Set(known.map(({ name }) => name));
  const added = [...wanted.values()].filter(({ name }) => !names.has(name));
  await addNames(db, added, now);
  const due = known.filter(
    ({ name, nextAt, isUnderWay }) => nextAt <= now && (isUnderWay || wanted.has(name)),
  );
  const domains = new Set([...added, ...due].map(({ registeredDomain }) => registeredDomain));
  for (const domain of domains) await db.transaction().execute((tx) => wakeWork(tx, certificateWork(domain)));
  for (const { kind, name, answer } of await removeChallenges(db, now)) {
    if (kind !== "dns-01" || wildcard === null) continue;
    try {
      await wildcard.dns.remove(challengeName(name), answer, clock.abortAfter(removeMs));
    } catch (err) {
      // It says nothing to anybody, and stands in nobody's way.
      log.warn({ name, err }, "an old record of DNS was not removed");
    }
  }
}

/** Rounds until disposed. */
export function startCertificateRounds(deps: RoundDeps & { listener: Listener }): AsyncDisposable {
  const { clock, listener, log } = deps;
  const stop = new AbortController();
  const wake = createWake(clock);
  const subscription = listener.on(certificateTopic, wake.signal);
  const onError = (err: unknown) => log.warn({ err }, "a round of certificates failed");
  const running = runLoop({ clock, wake, periodMs, restMs, signal: stop.signal, onError }, () => certificateRound(deps));
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      subscription[Symbol.dispose]();
      await running;
    },
  };
}
