/** A rate limit: `ratePerSecond` on average, up to `burst` at once. */
export interface TokenBucket {
  /** Takes one; false when none is left at `nowMs` (any clock that does not go back). */
  take(nowMs: number): boolean;
}

export function createTokenBucket({ ratePerSecond, burst }: { ratePerSecond: number; burst: number }): TokenBucket {
  let left = burst;
  let lastMs: number | null = null;
  return {
    take(nowMs) {
      if (lastMs !== null) left = Math.min(burst, left + ((nowMs - lastMs) / 1000) * ratePerSecond);
      lastMs = nowMs;
      if (left < 1) return false;
      left -= 1;
      return true;
    },
  };
}

/** A bucket for each of many names. */
export interface TokenBuckets {
  /** Takes one of the bucket of `name`; see `TokenBucket`. */
  take(name: string, nowMs: number): boolean;
  /** Names that are remembered now. */
  readonly size: number;
}

/**
 * A bucket is forgotten as soon as it is full again, which changes nothing, and the one that was used least recently
 * when there would be more than `max`.
 */
export function createTokenBuckets({
  max,
  ...rate
}: {
  ratePerSecond: number;
  burst: number;
  max: number;
}): TokenBuckets {
  const fullAfterMs = (rate.burst / rate.ratePerSecond) * 1000;
  /** Least recently used first. */
  const buckets = new Map<string, { bucket: TokenBucket; usedAtMs: number }>();
  return {
    take(name, nowMs) {
      const bucket = buckets.get(name)?.bucket ?? createTokenBucket(rate);
      buckets.delete(name);
      buckets.set(name, { bucket, usedAtMs: nowMs });
      for (const [other, { usedAtMs }] of buckets) {
        if (buckets.size <= max && nowMs - usedAtMs < fullAfterMs) break;
        buckets.delete(other);
      }
      return bucket.take(nowMs);
    },
    get size() {
      return buckets.size;
    },
  };
}
