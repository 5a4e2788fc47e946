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
