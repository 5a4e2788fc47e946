import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import type { ClaimedWork } from "../../stores/work/queue.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import type { Fleet } from "./fleet.ts";

/** Nothing to do until something changes. `recheckMs`: other work comes first, and this one again then; null: it stays. */
interface Wait {
  do: "wait";
  recheckMs: number | null;
}
/** `error`: it could not be done; null: it was. */
interface End {
  do: "end";
  error: string | null;
}

/** Rows of Postgres change without a signal. */
const lookMs = 500;

/**
 * Work that is done by steps. Each round reads everything and does one step, which looks again at what it rests on; so a
 * round that is repeated, is cut off or is done by two workers does no harm. `read`: null when what the work is about is no more.
 */
export function steppedWork<Found, Step extends { do: string }>(
  { clock, fleet }: { clock: Clock; fleet: Pick<Fleet, "onChange"> },
  {
    wakenBy,
    read,
    decide,
    perform,
  }: {
    wakenBy: readonly ("placements" | "routes" | "edges")[];
    read(item: ClaimedWork): Promise<Found | null>;
    decide(found: Found, item: ClaimedWork): Step | Wait | End;
    perform(found: Found, step: Exclude<Step, Wait | End>): Promise<unknown>;
  },
): WorkHandler {
  return async (item, signal) => {
    const wake = createWake(clock);
    using changes = new DisposableStack();
    for (const what of wakenBy) changes.use(fleet.onChange(what, wake.signal));
    while (!signal.aborted) {
      const found = await read(item);
      if (found === null) return { state: "done" };
      const step = decide(found, item);
      if (isEnd(step)) return step.error === null ? { state: "done" } : { state: "failed", error: step.error };
      if (!isWait(step)) await perform(found, step as Exclude<Step, Wait | End>);
      else if (step.recheckMs === null) await wake.wait(lookMs, signal);
      else return { retryAfterMs: step.recheckMs, refund: true };
    }
    return { retryAfterMs: 0, refund: true };
  };
}

const isEnd = (step: { do: string }): step is End => step.do === "end";
const isWait = (step: { do: string }): step is Wait => step.do === "wait";
