import type { Metrics } from "./metrics.ts";

const dayMs = 86_400_000;
/** Bounds in days; what has more left is `more`. */
const steps = [
  { left: "over", days: 0 },
  { left: "1d", days: 1 },
  { left: "7d", days: 7 },
  { left: "30d", days: 30 },
] as const;

/**
 * Tells operators how long the certificates that this edge serves are still good, each under the least step that it is
 * within.
 *
 * @param ends when each of them ends
 */
export function setCertificates(metrics: Pick<Metrics, "certificates">, ends: readonly Date[], now: Date): void {
  const counts = new Map<string, number>([...steps.map(({ left }) => [left, 0] as const), ["more", 0]]);
  for (const end of ends) {
    const days = (end.getTime() - now.getTime()) / dayMs;
    const left = steps.find((step) => days <= step.days)?.left ?? "more";
    counts.set(left, (counts.get(left) ?? 0) + 1);
  }
  for (const [left, count] of counts) metrics.certificates.set({ left }, count);
}
