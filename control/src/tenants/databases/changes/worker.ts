import { createWake } from "@svc/runtime/wake";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { ServerRefused, ServerUnreachable } from "../admin-sql.ts";
import { type ChangeDeps, changeEffects } from "./effects.ts";
import { foundChange } from "./facts.ts";
import type { RoomFleet } from "./room.ts";
import { type ChangeState, nextChangeStep } from "./steps.ts";

export interface ChangeWorkerDeps extends ChangeDeps {
  fleet: Pick<Fleet, "onChange"> & RoomFleet;
}

/** For so long a worker stays with a change whose tenant waits, however long it has waited by then. */
const holdMs = 60_000;
/** While nobody waits but for a copy. */
const copyingHoldMs = 5_000;
const lookMs = 500;
/** While a tenant waits. */
const heldLookMs = 50;

const keepsTenantOut = (state: ChangeState): boolean => state !== "copying";

/**
 * Work of kind `database-change`: brings a branch to another volume, or its server to another image. Each round reads everything
 * and does one step, as the worker of branches does. While the tenant is kept out it stays with the change.
 */
export function changeWorker(deps: ChangeWorkerDeps): WorkHandler {
  const { clock, rows, fleet, log } = deps;
  const perform = changeEffects(deps);
  return async (item, signal) => {
    const { changeId } = item.payload as { changeId: string };
    const wake = createWake(clock);
    using _placements = fleet.onChange("placements", wake.signal);
    while (!signal.aborted) {
      const row = await rows.find(changeId);
      if (row === null) return { state: "done" };
      const found = foundChange(row, fleet);
      const { facts } = found;
      const step = nextChangeStep(facts);
      if (step.do === "end") return { state: "done" };
      const isHeld = keepsTenantOut(facts.state);
      const isLong = facts.sinceMs >= (isHeld ? holdMs : copyingHoldMs);
      const again = { retryAfterMs: recheckAfterMs(facts.sinceMs), refund: true };
      if (step.do === "wait") {
        if (isLong) return again;
        await wake.wait(isHeld ? heldLookMs : lookMs, signal);
        continue;
      }
      try {
        await perform(found, step, signal);
      } catch (error) {
        if (!(error instanceof ServerUnreachable || error instanceof ServerRefused)) throw error;
        log.warn({ err: error, changeId, step: step.do }, "a database server did not do what it was asked");
        // Whoever is kept out waits no longer than it has to.
        if (!isHeld || isLong) return { ...again, error: error.message };
        await wake.wait(lookMs, signal);
      }
    }
    return { retryAfterMs: 0, refund: true };
  };
}
