import { type Clock, every } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { type Endpoints, linkBackOff, roundsFailed } from "./endpoints.ts";
import type { LinkLog } from "./log.ts";
import { createOutbox } from "./outbox.ts";

/** Control refuses this identity for ever. */
export class FencedError extends Error {
  override name = "FencedError";
}

/** Queues a message on the present session. False when the session is gone: what matters is told again in the next. */
export type Send<Req> = (message: Req) => boolean;

/** What both kinds of session have in common: a oneof with these cases. */
interface Inbound {
  message: { case?: string | undefined; value?: unknown };
}

export interface SessionOptions<Req, Res extends Inbound> {
  clock: Clock;
  random: Random;
  /** Where `connect` finds control. Whatever ends a session, the next one is opened at another endpoint. */
  endpoints: Endpoints;
  /** Opens the stream, at the endpoint in use. It has to end or fail when `signal` aborts. */
  connect(requests: AsyncIterable<Req>, signal: AbortSignal): AsyncIterable<Res>;
  /** Before anything is received: queue the Hello. */
  onOpen(send: Send<Req>): void | Promise<void>;
  /** Every message, in order, the ones below included. The next waits until the promise settles. */
  onMessage(message: Res, send: Send<Req>): void | Promise<void>;
  /** After each session, however it ended. */
  onClose(): void;
  /** The Renew message. When given, it is sent as often as Welcome asks, and a session whose renewals stay unanswered ends. */
  renew?: (n: bigint) => Req;
  signal: AbortSignal;
  log: LinkLog;
}

const outboxLimit = 10_000;
/** Connecting, TLS, Hello and Welcome together. */
const welcomeTimeoutMs = 15_000;
/** A session that lasted this long proves that its endpoint was well, so the next back-off starts low again. */
const settledAfterMs = 5_000;
const longestGoAwayMs = 60_000;
const defaultLeaseMs = 15_000;

/**
 * Keeps one session to control open until `signal` aborts, which is the only way it returns. Every other
 * end, also a cancellation that we did not ask for, is followed by another try: connect-node reports a
 * connection that the server destroyed as `canceled`.
 *
 * @throws FencedError when control says so
 */
export async function runSession<Req, Res extends Inbound>(options: SessionOptions<Req, Res>): Promise<void> {
  const { clock, random, endpoints, signal, log } = options;
  let failures = 0;
  while (!signal.aborted) {
    const startedAtMs = clock.steadyMs();
    const { reason, endpoint, welcomed, afterMs = 0, fenced } = await oneSession(options);
    if (signal.aborted) return;
    if (fenced !== undefined) throw new FencedError(fenced);
    const isSettled = welcomed && clock.steadyMs() - startedAtMs >= settledAfterMs;
    failures = isSettled ? 1 : failures + 1;
    endpoints.moveOn(endpoint);
    const pauseMs = afterMs + backOffMs(roundsFailed(failures, endpoints.count), linkBackOff, random.next());
    log.warn({ reason, endpoint, failures, pauseMs }, "session ended, reconnecting");
    await pause(clock, pauseMs, signal);
  }
}

interface Ending {
  reason: string;
  afterMs?: number;
  fenced?: string;
}
type Session = Ending & {
  /** Where it was opened. */
  endpoint: string;
  welcomed: boolean;
};

async function oneSession<Req, Res extends Inbound>(options: SessionOptions<Req, Res>): Promise<Session> {
  const own = new AbortController();
  const signal = AbortSignal.any([options.signal, own.signal]);
  const fail = (reason: string): void => own.abort(new Error(reason));
  const outbox = createOutbox<Req>(outboxLimit, () => fail("control does not read what this daemon sends"));
  // A call does not end while its request stream is open.
  signal.addEventListener("abort", () => outbox.close(), { once: true });
  using welcomeTimer = options.clock.after(welcomeTimeoutMs, () => fail("no welcome in time"));
  const renewal = createRenewal(options.clock, options.renew, outbox.send, fail);
  let endpoint = options.endpoints.current();
  let welcomed = false;
  const session = (ending: Ending): Session => ({ ...ending, endpoint, welcomed });
  try {
    await options.onOpen(outbox.send);
    // Meanwhile another call may have found the endpoint dead.
    endpoint = options.endpoints.current();
    for await (const received of options.connect(outbox, signal)) {
      const { case: kind, value } = received.message;
      if (kind === "welcome") {
        welcomeTimer[Symbol.dispose]();
        welcomed = true;
        renewal.start(readNumber(value, "renewEveryMs"), readNumber(value, "leaseTtlMs") || defaultLeaseMs);
      }
      if (kind === "renewAck") renewal.acknowledged();
      await options.onMessage(received, outbox.send);
      if (kind === "fenced") return session({ reason: "fenced", fenced: readText(value, "reason") });
      if (kind === "superseded") return session({ reason: "superseded by a newer session of this identity" });
      if (kind === "goAway") {
        const afterMs = Math.min(readNumber(value, "reconnectAfterMs"), longestGoAwayMs);
        return session({ reason: "control asked to reconnect", afterMs });
      }
    }
    return session({ reason: "control ended the stream" });
  } catch (cause) {
    const failure: unknown = own.signal.aborted ? own.signal.reason : cause;
    return session({ reason: failure instanceof Error ? failure.message : String(failure) });
  } finally {
    renewal.stop();
    outbox.close();
    // Leaving the loop does not end the call: only the signal does.
    own.abort();
    options.onClose();
  }
}

function createRenewal<Req>(
  clock: Clock,
  renew: ((n: bigint) => Req) | undefined,
  send: (message: Req) => boolean,
  fail: (reason: string) => void,
): { start(everyMs: number, leaseTtlMs: number): void; acknowledged(): void; stop(): void } {
  let timer: Disposable | null = null;
  let n = 0n;
  let unansweredSinceMs: number | null = null;
  return {
    start(everyMs, leaseTtlMs) {
      if (renew === undefined || everyMs <= 0) return;
      timer?.[Symbol.dispose]();
      timer = every(clock, everyMs, () => {
        const nowMs = clock.steadyMs();
        // Counted from the first send that got no answer, so the holder gives up before the grantor does.
        if (unansweredSinceMs !== null && nowMs - unansweredSinceMs >= leaseTtlMs)
          return fail("renewals stay unanswered");
        unansweredSinceMs ??= nowMs;
        n += 1n;
        send(renew(n));
      });
    },
    acknowledged() {
      unansweredSinceMs = null;
    },
    stop() {
      timer?.[Symbol.dispose]();
    },
  };
}

function readNumber(value: unknown, key: string): number {
  const found = readField(value, key);
  return typeof found === "number" ? found : 0;
}

function readText(value: unknown, key: string): string {
  const found = readField(value, key);
  return typeof found === "string" ? found : "";
}

const readField = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
