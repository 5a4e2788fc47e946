// @pure

/** A token bucket: `maxTokens` at once, and `refillTokens` more every `refillIntervalMs`. */
export interface Rate {
  maxTokens: number;
  refillIntervalMs: number;
  refillTokens: number;
}

/** A bucket for each channel. */
export interface Throttle {
  /** Takes a token of the channel's; false when none is left at `nowMs` (of a clock that does not go back). */
  take(channel: string, nowMs: number): boolean;
  /** Channels that are remembered now. */
  readonly size: number;
}

interface Bucket {
  tokens: number;
  /** When it was last filled up: whole intervals, so that nothing of one is lost. */
  filledAtMs: number;
  usedAtMs: number;
}

/**
 * Names of channels are the application's, and may be as many as its users: a bucket that is full again is forgotten, which changes
 * nothing.
 */
export function createThrottle({ maxTokens, refillIntervalMs, refillTokens }: Rate): Throttle {
  const fullAfterMs = Math.ceil(maxTokens / refillTokens) * refillIntervalMs;
  /** Least recently used first. */
  const buckets = new Map<string, Bucket>();

  const forgetFull = (nowMs: number): void => {
    for (const [channel, { usedAtMs }] of buckets) {
      if (nowMs - usedAtMs < fullAfterMs) return;
      buckets.delete(channel);
    }
  };

  return {
    take(channel, nowMs) {
      forgetFull(nowMs);
      const bucket = buckets.get(channel) ?? { tokens: maxTokens, filledAtMs: nowMs, usedAtMs: nowMs };
      buckets.delete(channel);
      buckets.set(channel, bucket);
      const intervals = Math.floor((nowMs - bucket.filledAtMs) / refillIntervalMs);
      bucket.tokens = Math.min(maxTokens, bucket.tokens + intervals * refillTokens);
      bucket.filledAtMs += intervals * refillIntervalMs;
      bucket.usedAtMs = nowMs;
      if (bucket.tokens < 1) return false;
      bucket.tokens -= 1;
      return true;
    },
    get size() {
      return buckets.size;
    },
  };
}
