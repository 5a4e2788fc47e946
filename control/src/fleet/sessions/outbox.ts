import type { Versioned } from "../cluster/entries.ts";
import type { PlacementValue } from "../cluster/keys.ts";

/** A placement as etcd holds it for the node. */
export type DesiredPlacement = Versioned<PlacementValue>;

interface Told {
  modRevision: bigint;
  epoch: number;
  desired: PlacementValue["desired"];
}

/**
 * What one agent has been told, within one session. Messages form a chain: each names the
 * revision that it applies to and the one that it results in (etcd revisions, rising), and the
 * next is sent only after the agent answered the last.
 */
export interface Outbox {
  told: ReadonlyMap<string, Told>;
  /** Where the chain stands; null before the first message, and after the agent asked to begin again. */
  position: bigint | null;
  /** `resultsIn` of the message that waits for its answer. */
  waitsFor: bigint | null;
}

export const emptyOutbox: Outbox = { told: new Map(), position: null, waitsFor: null };

export type Change = { upsert: DesiredPlacement } | { remove: { placementId: string; epoch: number } };

/**
 * What the agent does not know yet, oldest first; empty while a message waits for its answer.
 * A key that vanished is passed on only when its placement was to be removed. Anything else
 * that vanishes is a loss and no order: absence never stops a container.
 */
export function pendingChanges(outbox: Outbox, desired: ReadonlyMap<string, DesiredPlacement>): Change[] {
  if (outbox.waitsFor !== null) return [];
  const upserts = [...desired.values()]
    .filter(({ value, modRevision }) => (outbox.told.get(value.placementId)?.modRevision ?? 0n) < modRevision)
    .sort((a, b) => (a.modRevision < b.modRevision ? -1 : a.modRevision > b.modRevision ? 1 : 0))
    .map((upsert) => ({ upsert }));
  const removes = [...outbox.told]
    .filter(([placementId, told]) => told.desired === "removed" && !desired.has(placementId))
    .map(([placementId, { epoch }]) => ({ remove: { placementId, epoch } }));
  return [...upserts, ...removes];
}

export interface Head {
  kind: "complete" | "delta";
  /** Empty for a complete message. */
  appliesTo: string;
  resultsIn: string;
}

/**
 * Puts `changes`, the first ones of `pendingChanges`, on their way. `revision` is the one at
 * which `desired` was read; it is reached only by the message with the last change. A complete
 * message is sent even when there is nothing to run, and always results in `revision`: what does
 * not fit in it follows as deltas, and the agent must not take it for older than what it has.
 */
export function tell(
  outbox: Outbox,
  changes: readonly Change[],
  { revision, last }: { revision: bigint; last: boolean },
): { outbox: Outbox; head: Head } {
  const told = new Map(outbox.told);
  let newest = outbox.position ?? 0n;
  for (const change of changes) {
    if ("remove" in change) {
      told.delete(change.remove.placementId);
      continue;
    }
    const { value, modRevision } = change.upsert;
    told.set(value.placementId, { modRevision, epoch: value.epoch, desired: value.desired });
    if (modRevision > newest) newest = modRevision;
  }
  const resultsIn = (outbox.position === null || last) && revision > newest ? revision : newest;
  return {
    outbox: { told, position: resultsIn, waitsFor: resultsIn },
    head: {
      kind: outbox.position === null ? "complete" : "delta",
      appliesTo: outbox.position === null ? "" : String(outbox.position),
      resultsIn: String(resultsIn),
    },
  };
}

/** The outbox after the agent's answer. An answer to something else changes nothing; one that asks to begin again always counts. */
export function answered(outbox: Outbox, { resultsIn, resync }: { resultsIn: string; resync: boolean }): Outbox {
  if (resync) return emptyOutbox;
  return outbox.waitsFor !== null && String(outbox.waitsFor) === resultsIn ? { ...outbox, waitsFor: null } : outbox;
}

/** What the agent said last, by placement id. */
export interface ReportedByAgent {
  /** Whatever has not ended. */
  active: ReadonlySet<string>;
  /** Sites whose container runs: what an agent counts its 30 % of. */
  running: ReadonlySet<string>;
}

const stopsWithoutToken = 3;
const stopsWithoutTokenShare = 0.3;

/**
 * Whether an agent would hold these changes back as a mass stop: more than 3, and more than
 * 30 % of what runs. Every stop counted here is explicit in `desired`, so control may vouch for it.
 */
export function isMassStop(outbox: Outbox, changes: readonly Change[], { active, running }: ReportedByAgent): boolean {
  const isMeantToRun = (placementId: string) => (outbox.told.get(placementId)?.desired ?? "running") === "running";
  const stops = changes.filter(
    (change) =>
      "upsert" in change &&
      change.upsert.value.desired !== "running" &&
      active.has(change.upsert.value.placementId) &&
      isMeantToRun(change.upsert.value.placementId),
  ).length;
  const serving = [...running].filter(isMeantToRun).length;
  return stops > Math.max(stopsWithoutToken, serving * stopsWithoutTokenShare);
}

/** What Postgres knows of a placement: `gone` was to be removed or is forgotten by the leader. */
export type TaskRecord = "wanted" | "gone" | "unknown";

/**
 * What to do with something that the agent holds and etcd does not name. Only a record that says
 * "removed" ends it; without a record it is left alone, because the records may be what is lost.
 */
export const verdict = (record: TaskRecord): "kill" | "adopt" => (record === "gone" ? "kill" : "adopt");
