const windowMs = 60_000;
/** Users remembered at once; the longest unseen are forgotten first, in their favour. */
const usersMax = 50_000;

/**
 * Counts requests per user and minute, in this process: several replicas allow as many times the limit.
 * Returns the seconds to wait when `limit` is reached, null when the request may pass.
 */
export function createRateLimit(): (userId: string, limit: number, now: number) => number | null {
  const windows = new Map<string, { startedAt: number; count: number }>();
  return (userId, limit, now) => {
    const current = windows.get(userId);
    if (current === undefined || now - current.startedAt >= windowMs) {
      windows.delete(userId);
      windows.set(userId, { startedAt: now, count: 1 });
      const oldest = windows.size > usersMax ? windows.keys().next().value : undefined;
      if (oldest !== undefined) windows.delete(oldest);
      return null;
    }
    if (current.count >= limit) return Math.ceil((current.startedAt + windowMs - now) / 1000);
    current.count += 1;
    return null;
  };
}
