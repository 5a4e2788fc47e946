// @pure

/** An event that was sent, kept for those who come back. */
export interface Kept {
  channel: string;
  frame: Uint8Array;
}

/** The last events, numbered from 1. */
export interface Replay {
  /** Keeps the event with the next number, in place of the oldest where the buffer is full. */
  keep(kept: Kept): void;
  /** The id that the next event gets. */
  nextId(): string;
  /** What was sent after the event `lastEventId`, oldest first; nothing where that is no id of this instance. */
  after(lastEventId: string | null): Kept[];
}

/** @param instanceId hex, which no other instance has: numbers of another say nothing here */
export function createReplay(instanceId: string, bufferSize: number): Replay {
  /** The event n is at n modulo the size. */
  const ring: Kept[] = [];
  let last = 0;

  return {
    keep(kept) {
      last += 1;
      ring[last % bufferSize] = kept;
    },
    nextId: () => `${instanceId}:${last + 1}`,
    after(lastEventId) {
      const [, instance, seq] = /^([0-9a-f]+):(\d+)$/.exec(lastEventId ?? "") ?? [];
      if (instance !== instanceId) return [];
      const from = Math.max(Number(seq), last - bufferSize) + 1;
      const kept: Kept[] = [];
      for (let at = from; at <= last; at += 1) {
        const each = ring[at % bufferSize];
        if (each !== undefined) kept.push(each);
      }
      return kept;
    },
  };
}
