import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { isRunningOut } from "./rules.ts";
import { addNames, certificateTopic, listDue, removeChallenges } from "./store.ts";
import { loadWanted } from "./wanted.ts";
import { certificateWork, challengeName, type DnsWriter } from "./worker.ts";

export interface RoundDeps {
  clock: Clock;
  db: Db;
  wildcard: { name: string; dns: DnsWriter } | null;
  /** Hears in each round of those whose certificate ends soon and was not renewed in time. */
  tellLate(names: readonly string[]): void;
  log: Log;
}

const periodMs = 15_000;
/** A change of many domains is one round. */
const restMs = 1_000;
const namesTold = 20;
const removeMs = 60_000;

/**
 * Sees to it that every name which is wanted is known, and that somebody works on those that are due; and removes answers to
 * CAs that have had their time. Every replica does this: all of it may be repeated, and done twice at once.
 */
export async function certificateRound({ clock, db, wildcard, log, tellLate }: RoundDeps): Promise<void> {
  const now = clock.now();
  const [wanted, known] = await Promise.all([loadWanted(db, wildcard?.name ?? null), listDue(db)]);
  const names = new Set(known.map(({ name }) => name));
  const added = [...wanted.values()].filter(({ name, leadsHere }) => leadsHere && !names.has(name));
  await addNames(db, added, now);
  const isOrdered = (name: string): boolean => wanted.get(name)?.leadsHere === true;
  const due = known.filter(({ name, nextAt, isUnderWay }) => nextAt <= now && (isUnderWay || isOrdered(name)));
  const late = known.filter(({ name, held }) => isOrdered(name) && held !== null && isRunningOut(held, now));
  tellLate(late.map(({ name }) => name));
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
export function startCertificateRounds(
  deps: Omit<RoundDeps, "tellLate"> & { listener: Listener; metrics?: Pick<Metrics, "certificatesLate"> | undefined },
): AsyncDisposable {
  const { clock, listener, log, metrics } = deps;
  let told = "";
  const tellLate = (names: readonly string[]): void => {
    metrics?.certificatesLate.set(names.length);
    const text = names.join(" ");
    if (text !== told && names.length > 0)
      log.error({ names: names.slice(0, namesTold), count: names.length }, "certificates end soon and are not renewed");
    told = text;
  };
  const stop = new AbortController();
  const wake = createWake(clock);
  const subscription = listener.on(certificateTopic, wake.signal);
  const onError = (err: unknown) => log.warn({ err }, "a round of certificates failed");
  const running = runLoop({ clock, wake, periodMs, restMs, signal: stop.signal, onError }, () =>
    certificateRound({ ...deps, tellLate }),
  );
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      subscription[Symbol.dispose]();
      await running;
    },
  };
}
