import type { Clock } from "@svc/runtime/clock";

/** The writing half of a call. */
export interface WritableCall<M> {
  write(message: M, done: () => void): unknown;
}

/** Messages on their way to one peer, and whether the peer takes them. */
export interface Outbound<M> {
  /** `sizeBytes` is needed only for what may be large. */
  send(message: M, sizeBytes?: number): void;
  /** Why the peer is stuck, or null while it is not. */
  stuck(nowMs: number): string | null;
}

const smallMessageBytes = 64;

/**
 * Keeps count of what the transport has not taken yet. Senders hold back by themselves (one
 * unanswered assignment, one table), so a pile here means a peer that does not read.
 */
export function createOutbound<M>(
  call: WritableCall<M>,
  { stuckAfterMs, stuckBytes, clock }: { stuckAfterMs: number; stuckBytes: number; clock: Clock },
): Outbound<M> {
  const waiting: { sizeBytes: number; sinceMs: number }[] = [];
  let waitingBytes = 0;
  return {
    send(message, sizeBytes = smallMessageBytes) {
      const entry = { sizeBytes, sinceMs: clock.bootMs() };
      waiting.push(entry);
      waitingBytes += sizeBytes;
      // Writes are taken in order, so the oldest is always the one that is done.
      call.write(message, () => {
        const done = waiting.shift();
        waitingBytes -= done?.sizeBytes ?? 0;
      });
    },
    stuck(at) {
      const [oldest] = waiting;
      if (oldest === undefined) return null;
      // One large message in flight is not a pile: it has its time to go through.
      if (waitingBytes > stuckBytes && waiting.length > 1) return `${waitingBytes} bytes wait to be taken`;
      return at - oldest.sinceMs > stuckAfterMs ? `took nothing for ${Math.round(at - oldest.sinceMs)} ms` : null;
    },
  };
}
