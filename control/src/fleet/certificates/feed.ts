import { create } from "@bufbuild/protobuf";
import { type Certificate, CertificateSchema, type Challenge, ChallengeSchema } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { certificateTopic, keyAad } from "./store.ts";
import { loadWanted } from "./wanted.ts";

/** What every edge is to show and to answer. */
export interface EdgeCertificates {
  /** Fingerprints by name. */
  certificates: ReadonlyMap<string, string>;
  challenges: readonly Challenge[];
}

/** What edges are told of certificates, for all edges of this replica. */
export interface CertificateFeed extends AsyncDisposable {
  /** Null until it was read first. */
  current(): EdgeCertificates | null;
  subscribe(callback: () => void): Disposable;
  /**
   * The certificates of names, with their keys. What is gone is left out. What does not open has neither chain nor key: edges
   * refuse it and keep what they have, which one replica with the wrong master key must not take from all of them.
   */
  load(names: readonly string[]): Promise<Certificate[]>;
}

const periodMs = 30_000;
const restMs = 200;

/**
 * Reads Postgres again whenever something there changes: a domain that is removed or disabled is gone from the next
 * reading, whatever becomes of its certificate.
 */
export function startCertificateFeed(deps: {
  clock: Clock;
  db: Db;
  secrets: Secrets;
  listener: Listener;
  /** `*.` and the content domain; null: it has no certificate. */
  wildcard: string | null;
  log: Log;
}): CertificateFeed {
  const { clock, db, secrets, listener, wildcard, log } = deps;
  const callbacks = new Set<() => void>();
  const stop = new AbortController();
  const wake = createWake(clock);
  const subscription = listener.on(certificateTopic, wake.signal);
  let current: EdgeCertificates | null = null;
  let text = "";
  const onError = (err: unknown) => log.warn({ err }, "certificates of edges could not be read");
  const running = runLoop({ clock, wake, periodMs, restMs, signal: stop.signal, onError }, async () => {
    const read = await readAll(db, wildcard);
    const readText = JSON.stringify([[...read.certificates], read.challenges.map(({ host, token }) => [host, token])]);
    if (readText === text && current !== null) return;
    current = read;
    text = readText;
    for (const callback of callbacks) callback();
  });
  return {
    current: () => current,
    subscribe(callback) {
      callbacks.add(callback);
      return { [Symbol.dispose]: () => void callbacks.delete(callback) };
    },
    async load(names) {
      const rows = await db
        .selectFrom("certificate")
        .select(["name", "chain", "key"])
        .where("name", "in", names)
        .execute();
      return rows.flatMap(({ name, chain, key }) => {
        if (chain === null || key === null) return [];
        try {
          const privateKey = secrets.open(key, keyAad(name)).toString("utf8");
          return [create(CertificateSchema, { name, chain, privateKey })];
        } catch (err) {
          log.error({ name, err }, "the key of a certificate cannot be opened: edges are told of its name alone");
          return [create(CertificateSchema, { name })];
        }
      });
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      subscription[Symbol.dispose]();
      await running;
    },
  };
}

async function readAll(db: Db, wildcard: string | null): Promise<EdgeCertificates> {
  const [wanted, held, challenges] = await Promise.all([
    loadWanted(db, wildcard),
    db.selectFrom("certificate").select(["name", "fingerprint"]).where("fingerprint", "is not", null).execute(),
    db
      .selectFrom("acme_challenge")
      .select(["name as host", "token", "answer"])
      .where("kind", "=", "http-01")
      .orderBy("token")
      .execute(),
  ]);
  return {
    certificates: new Map(
      held.flatMap(({ name, fingerprint }) => (fingerprint !== null && wanted.has(name) ? [[name, fingerprint]] : [])),
    ),
    challenges: challenges.map((each) => create(ChallengeSchema, each)),
  };
}
