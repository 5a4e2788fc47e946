/** What is to stand in etcd; null: nothing, since the clock is right. */
export function offsetToTell(estimateMs: number, toldMs: number | null): number | null {
  if (Math.abs(estimateMs) <= tellFromMs) return null;
  const isNews = toldMs === null || Math.abs(estimateMs - toldMs) > tellFromMs;
  return isNews ? Math.round(estimateMs) : toldMs;
}

/** What is within this is not worth a write, nor is a smaller change of what was written. */
const tellFromMs = 1_000;
