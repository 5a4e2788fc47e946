import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { isRunningOut, orderWindows } from "./rules.ts";
import { addNames, certificateTopic, countPlaced, listDue, removeChallenges } from "./store.ts";
import { nextTurns } from "./turns.ts";
import { loadWanted } from "./wanted.ts";
import { certificateKind, certificateWork, challengeName, type DnsWriter } from "./worker.ts";

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
/** Registered domains that are worked on at once, by all replicas; with several of these it may be a few more. */
const domainsAtOnce = 32;
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
  const ownerOf = (name: string): string | null => wanted.get(name)?.ownerId ?? null;
  const turns = [...due.filter(({ isUnderWay }) => !isUnderWay).sort((a, b) => +a.nextAt - +b.nextAt), ...added].map(
    ({ name, registeredDomain }) => ({ registeredDomain, ownerId: ownerOf(name) }),
  );
  const [busy, placed] = await Promise.all([
    listBusy(db),
    countPlaced(db, new Date(now.getTime() - orderWindows.orderedMs)),
  ]);
  const isBusy = ({ registeredDomain }: { registeredDomain: string }): boolean => busy.has(registeredDomain);
  const domains = new Set([
    // Whoever works on these has the room already.
    ...[...due.filter(({ isUnderWay }) => isUnderWay), ...turns.filter(isBusy)].map((each) => each.registeredDomain),
    ...nextTurns(
      turns.filter((each) => !isBusy(each)),
      placed,
      domainsAtOnce - busy.size,
    ),
  ]);
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

/** Registered domains that somebody works on, or will. */
async function listBusy(db: Db): Promise<Set<string>> {
  const { key } = certificateWork("");
  const rows = await db
    .selectFrom("work_item")
    .select("key")
    .where("kind", "=", certificateKind)
    .where("state", "in", ["queued", "running"])
    .execute();
  return new Set(rows.map((row) => row.key.slice(key.length)));
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
