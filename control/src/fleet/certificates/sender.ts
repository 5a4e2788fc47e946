import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type CertificatesHeld,
  CertificatesSchema,
  ChallengesSchema,
  type SessionResponseSchema,
} from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { CertificateFeed } from "./feed.ts";
import { emptyOutbox, nextChange, untold } from "./outbox.ts";
import { afterAnswer, mayTell, type Setbacks, stillWanted } from "./setbacks.ts";

/** Tells one router what it shows over TLS and what it answers CAs: one unanswered message at a time. */
export interface CertificateSender {
  wake(): void;
  answered(held: CertificatesHeld): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

const idleMs = 60_000;
/** While something that was told is not in force. */
const againMs = 10_000;

/**
 * What a router could not take over is told again later and later, and holds up nothing else.
 *
 * @param options.onAnswering hears which tokens the router answers, whenever it says so
 * @param options.onProblem hears why certificates are not in force there, and null once all are
 */
export function createCertificateSender(options: {
  clock: Clock;
  random: Random;
  edgeId: string;
  feed: Pick<CertificateFeed, "current" | "load">;
  send(message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number): void;
  onAnswering(tokens: string[]): void;
  onProblem(problem: string | null): void;
  log: Log;
  signal: AbortSignal;
}): CertificateSender {
  const { clock, random, edgeId, feed, send, onAnswering, onProblem, log, signal } = options;
  const wake = createWake(clock);
  let number = 0n;
  /** What was sent last and is not answered yet: tokens, or fingerprints by name. */
  let sent: { number: bigint; tokens: readonly string[] } | { number: bigint; told: Map<string, string> } | null = null;
  let outbox = emptyOutbox;
  let setbacks: Setbacks = new Map();
  let problem: string | null = null;
  /** Of all challenges that were told last, in one text; null: they have to be told. */
  let toldTokens: string | null = null;
  /** When they are told again because the router did not answer all of them; null: it did. */
  let tokensAgainAtMs: number | null = null;

  function tellProblem(next: string | null): void {
    if (next === problem) return;
    problem = next;
    onProblem(next);
  }

  /** Whether there was something that CAs wait for. */
  function sendChallenges(): boolean {
    const current = feed.current();
    if (current === null) return false;
    const { challenges } = current;
    const tokens = challenges.map(({ token }) => token);
    const isDue = tokensAgainAtMs !== null && tokensAgainAtMs <= clock.steadyMs();
    if (tokens.join(" ") === toldTokens && !isDue) return false;
    toldTokens = tokens.join(" ");
    tokensAgainAtMs = null;
    number += 1n;
    sent = { number, tokens };
    const value = create(ChallengesSchema, { number, challenges: [...challenges] });
    send({ message: { case: "challenges", value } }, toBinary(ChallengesSchema, value).byteLength);
    return true;
  }

  async function sendCertificates(): Promise<void> {
    const current = feed.current();
    if (current === null) return;
    const { certificates } = current;
    setbacks = stillWanted(setbacks, certificates);
    if (setbacks.size === 0) tellProblem(null);
    const nowMs = clock.steadyMs();
    const next = nextChange(outbox, certificates, (...one) => mayTell(setbacks, ...one, nowMs));
    if (next === null) return;
    const { first, more, upserts: names, removed: removedNames } = next.change;
    const what = "load certificates of edges";
    const load = async () => (names.length === 0 ? [] : feed.load(names));
    const upserts = await persist(load, { clock, random, signal, log, what });
    if (upserts === null || signal.aborted) return;
    outbox = next.outbox;
    number += 1n;
    sent = { number, told: new Map(names.map((name) => [name, certificates.get(name) ?? ""])) };
    const value = create(CertificatesSchema, { number, first, more, upserts, removedNames });
    send({ message: { case: "certificates", value } }, toBinary(CertificatesSchema, value).byteLength);
    log.info({ edgeId, certificates: upserts.length, removed: removedNames.length, more }, "certificates sent");
  }

  return {
    wake: wake.signal,
    answered({ number: answered, error, tokens }) {
      if (sent === null || answered !== sent.number) return;
      const before = sent;
      sent = null;
      const nowMs = clock.steadyMs();
      if (error !== "") log.error({ edgeId, error }, "a router could not take over all certificates");
      if ("tokens" in before) {
        // Its Caddy may be away for a moment, and the CA waits.
        const isWhole = error === "" && before.tokens.every((token) => tokens.includes(token));
        tokensAgainAtMs = isWhole ? null : nowMs + againMs;
        onAnswering(tokens);
      } else {
        setbacks = afterAnswer(setbacks, before.told, error !== "", nowMs);
        if (error !== "") {
          outbox = untold(outbox, before.told.keys());
          tellProblem(error);
        }
      }
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        if (sent === null && !sendChallenges()) await sendCertificates();
        await wake.wait(setbacks.size > 0 || tokensAgainAtMs !== null ? againMs : idleMs, signal);
      }
    },
  };
}
