import type { Clock, Timer } from "@svc/runtime/clock";
import { createTokenBucket } from "@svc/runtime/token-bucket";
import type { DaemonCall } from "./call.ts";
import { LinkError } from "./errors.ts";
import { createOutbound } from "./outbound.ts";
import { grantedForMs, type LinkTimings, renewalRate } from "./timings.ts";

/** Why a stream ends, and so what the daemon is told before it does. */
export type Ending =
  | { why: "superseded" }
  /** The identity is refused for ever. */
  | { why: "fenced"; reason: string }
  /** Come back later, perhaps to another replica. */
  | { why: "go away"; reconnectAfterMs: number; reason: string }
  /** No renewal in time, or the daemon ended it. There is nobody to tell. */
  | { why: "expired" | "ended" }
  | { why: "refused"; error: LinkError };

/** The words of one service for the endings that a daemon is told of. */
export interface Farewells<Res> {
  superseded(): Res;
  fenced(reason: string): Res;
  goAway(reconnectAfterMs: number): Res;
}

/** One daemon's stream, from opening to end. */
export interface Stream<Req, Res> {
  /** The first message; rejects when none comes in time or the stream ends before. */
  first(timeoutMs: number): Promise<Req>;
  /** From now on every message goes to `handler`, in order. What came meanwhile comes first. */
  receive(handler: (message: Req) => void): void;
  send(message: Res, sizeBytes?: number): void;
  /** Starts the lease, or extends it: past it the stream ends as `expired`. One that is renewed far too often ends. */
  renew(): void;
  /** When the last renewal came, by `bootMs`; null before the first. */
  readonly renewedAtMs: number | null;
  /** Ends it; the first call counts. */
  close(ending: Ending): void;
  /** Aborts when it has ended, however that came about; the reason is an `Ending`. */
  readonly signal: AbortSignal;
  /** Sends a peer away that does not read. */
  checkStuck(nowMs: number): void;
}

export interface StreamOptions<Res> {
  timings: LinkTimings;
  farewells: Farewells<Res>;
  clock: Clock;
}

/** What renews without end would do so again at once. */
const floodingReconnectMs = 60_000;

export function createStream<Req, Res>(
  call: DaemonCall<Req, Res>,
  { timings, farewells, clock }: StreamOptions<Res>,
): Stream<Req, Res> {
  const ended = new AbortController();
  const { stuckAfterMs, stuckBytes } = timings;
  const outbound = createOutbound<Res>(call, { stuckAfterMs, stuckBytes, clock });
  const renewals = createTokenBucket(renewalRate(timings));
  let lease: Timer | null = null;
  let renewedAtMs: number | null = null;
  let handler: ((message: Req) => void) | null = null;

  function close(ending: Ending): void {
    if (ended.signal.aborted) return;
    lease?.[Symbol.dispose]();
    if (ending.why === "superseded") outbound.send(farewells.superseded());
    else if (ending.why === "fenced") outbound.send(farewells.fenced(ending.reason));
    else if (ending.why === "go away") outbound.send(farewells.goAway(ending.reconnectAfterMs));
    ended.abort(ending);
    if (ending.why === "refused") call.end(ending.error);
    else if (ending.why === "expired") call.end(new LinkError("UNAVAILABLE", "no renewal in time"));
    else call.end();
  }

  call.listen({
    message(message) {
      if (!ended.signal.aborted) handler?.(message);
    },
    ended: () => close({ why: "ended" }),
  });

  return {
    first: (timeoutMs) =>
      new Promise((resolve, reject) => {
        const settle = (finish: () => void) => {
          timer[Symbol.dispose]();
          ended.signal.removeEventListener("abort", onEnd);
          finish();
        };
        const onEnd = () => settle(() => reject(new LinkError("UNAVAILABLE", "the stream ended")));
        const timer = clock.after(timeoutMs, () => {
          settle(() => reject(new LinkError("FAILED_PRECONDITION", "no first message in time")));
        });
        ended.signal.addEventListener("abort", onEnd, { once: true });
        if (ended.signal.aborted) return onEnd();
        handler = (message) => {
          // Paused until there is somebody for the next message: the transport holds the sender back.
          call.pause();
          handler = null;
          settle(() => resolve(message));
        };
        call.resume();
      }),
    receive(next) {
      handler = next;
      if (!ended.signal.aborted) call.resume();
    },
    send(message, sizeBytes) {
      if (!ended.signal.aborted) outbound.send(message, sizeBytes);
    },
    renew() {
      if (ended.signal.aborted) return;
      const nowMs = clock.bootMs();
      if (!renewals.take(nowMs)) {
        return close({ why: "go away", reconnectAfterMs: floodingReconnectMs, reason: "renewed far too often" });
      }
      renewedAtMs = nowMs;
      lease?.[Symbol.dispose]();
      lease = clock.after(grantedForMs(timings.leaseTtlMs), () => close({ why: "expired" }));
    },
    get renewedAtMs() {
      return renewedAtMs;
    },
    close,
    signal: ended.signal,
    checkStuck(at) {
      const reason = outbound.stuck(at);
      if (reason !== null) close({ why: "go away", reconnectAfterMs: timings.renewEveryMs, reason });
    },
  };
}
