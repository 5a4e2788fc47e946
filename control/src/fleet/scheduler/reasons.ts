import type { SchedulerStep } from "./steps.ts";
import type { Reasons, SchedulerRows } from "./store.ts";

/** The same text for the same reasons, whatever their order. */
const canonical = (reasons: Reasons): string => JSON.stringify(Object.entries(reasons).sort());

/** One statement changes so many rows at most, so that nobody waits long for one of them. */
const rowsMax = 1_000;

/**
 * Writes why tasks wait, or keep what they have, where it is not what Postgres says already (`known`). Tasks that wait
 * for the same reason are written together.
 */
export async function recordReasons(
  rows: Pick<SchedulerRows, "refuse" | "keep">,
  steps: readonly SchedulerStep[],
  known: ReadonlyMap<string, Reasons>,
): Promise<void> {
  const isNews = (taskId: string, reasons: Reasons): boolean => {
    const before = known.get(taskId);
    return before === undefined || canonical(before) !== canonical(reasons);
  };
  const refused = new Map<string, { reasons: Reasons; taskIds: string[] }>();
  for (const step of steps) {
    if (step.do === "refuse" && isNews(step.taskId, step.refused)) {
      const key = canonical(step.refused);
      const group = refused.get(key) ?? { reasons: step.refused, taskIds: [] };
      refused.set(key, group);
      group.taskIds.push(step.taskId);
    }
    if (step.do === "keep" && isNews(step.taskId, { [step.reason]: 1 })) await rows.keep(step);
  }
  for (const { reasons, taskIds } of refused.values()) {
    for (let at = 0; at < taskIds.length; at += rowsMax) await rows.refuse(taskIds.slice(at, at + rowsMax), reasons);
  }
}
