import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type CertificatesHeld,
  CertificatesSchema,
  ChallengesSchema,
  type SessionResponseSchema,
} from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { CertificateFeed } from "./feed.ts";
import { emptyOutbox, nextChange } from "./outbox.ts";

/** Tells one router what it shows over TLS and what it answers CAs: one unanswered message at a time. */
export interface CertificateSender {
  wake(): void;
  answered(held: CertificatesHeld): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

const idleMs = 60_000;
/** After a message that a router could not put into force as a whole. */
const againMs = 10_000;

/** @param options.onAnswering hears which tokens the router answers, whenever it says so */
export function createCertificateSender(options: {
  clock: Clock;
  random: Random;
  edgeId: string;
  feed: Pick<CertificateFeed, "current" | "load">;
  send(message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number): void;
  onAnswering(tokens: string[]): void;
  log: Log;
  signal: AbortSignal;
}): CertificateSender {
  const { clock, random, edgeId, feed, send, onAnswering, log, signal } = options;
  const wake = createWake(clock);
  let number = 0n;
  /** What was sent last and is not answered yet. */
  let sent: { number: bigint; isChallenges: boolean; names: readonly string[] } | null = null;
  let hasFailed = false;
  let outbox = emptyOutbox;
  let toldTokens: string | null = null;

  /** Whether there was something that CAs wait for. */
  function sendChallenges(): boolean {
    const current = feed.current();
    if (current === null) return false;
    const { challenges } = current;
    const tokens = challenges.map(({ token }) => token).join(" ");
    if (tokens === toldTokens) return false;
    toldTokens = tokens;
    number += 1n;
    sent = { number, isChallenges: true, names: [] };
    const value = create(ChallengesSchema, { number, challenges: [...challenges] });
    send({ message: { case: "challenges", value } }, toBinary(ChallengesSchema, value).byteLength);
    return true;
  }

  async function sendCertificates(): Promise<void> {
    const current = feed.current();
    const next = current && nextChange(outbox, current.certificates);
    if (next === null) return;
    const { first, more, upserts: names, removed: removedNames } = next.change;
    const what = "load certificates of edges";
    const load = async () => (names.length === 0 ? [] : feed.load(names));
    const upserts = await persist(load, { clock, random, signal, log, what });
    if (upserts === null || signal.aborted) return;
    outbox = next.outbox;
    number += 1n;
    sent = { number, isChallenges: false, names };
    const value = create(CertificatesSchema, { number, first, more, upserts, removedNames });
    send({ message: { case: "certificates", value } }, toBinary(CertificatesSchema, value).byteLength);
    log.info({ edgeId, certificates: upserts.length, removed: removedNames.length, more }, "certificates sent");
  }

  return {
    wake: wake.signal,
    answered(held) {
      if (sent === null || held.number !== sent.number) return;
      const { isChallenges, names } = sent;
      sent = null;
      hasFailed = held.error !== "";
      if (hasFailed) {
        log.error({ edgeId, error: held.error }, "a router could not take over all certificates");
        // Told again: what is in force already costs it nothing.
        const failed = new Set(names);
        outbox = { ...outbox, told: new Map([...outbox.told].filter(([name]) => !failed.has(name))) };
        if (isChallenges) toldTokens = null;
      }
      if (isChallenges) onAnswering(held.tokens);
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        if (hasFailed) await pause(clock, againMs, signal);
        hasFailed = false;
        if (sent === null && !signal.aborted && !sendChallenges()) await sendCertificates();
        await wake.wait(idleMs, signal);
      }
    },
  };
}
