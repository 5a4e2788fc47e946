// @pure

/** How long nothing may be saved before what was saved is sent. */
export const debounceMs = 2000;
/** Where something is saved without end, it is sent all the same after so long. */
export const patienceMs = 15_000;
const awayMsMin = 2000;
const awayMsMax = 60_000;

/** What is known of a tree that is kept in sync. Times are of a clock that only grows. */
export interface SyncState {
  /** What was saved and no sync has taken in; null when that is nothing. */
  change: { firstAtMs: number; lastAtMs: number } | null;
  /** Not before then: the platform asked for it, or was away. */
  notBeforeMs: number;
  /** How often in a row the platform was away. */
  failures: number;
}

/** The first sync is due at once. */
export const firstState = (nowMs: number): SyncState => ({
  change: { firstAtMs: nowMs - debounceMs, lastAtMs: nowMs - debounceMs },
  notBeforeMs: nowMs,
  failures: 0,
});

/** Something was saved. */
export const noted = (state: SyncState, nowMs: number): SyncState => ({
  ...state,
  change: { firstAtMs: state.change?.firstAtMs ?? nowMs, lastAtMs: nowMs },
});

export type SyncStep = { do: "sync" } | { do: "wait"; ms: number | null };

/** What comes next; a wait without an end lasts until something is saved. */
export function nextStep({ change, notBeforeMs }: SyncState, nowMs: number): SyncStep {
  if (change === null) return { do: "wait", ms: null };
  const quietAtMs = Math.min(change.lastAtMs + debounceMs, change.firstAtMs + patienceMs);
  const dueAtMs = Math.max(quietAtMs, notBeforeMs);
  return dueAtMs <= nowMs ? { do: "sync" } : { do: "wait", ms: dueAtMs - nowMs };
}

/** A sync begins: whatever is saved from now on is for the next one. */
export const begun = (state: SyncState): SyncState => ({ ...state, change: null });

/**
 * How a sync ended. `done`: the platform has these bytes, or said what is wrong with them, so that the same need not be sent
 * again. `busy`: it asks to be left alone for a while. `away`: it did not answer.
 */
export type SyncEnd = { is: "done" } | { is: "busy"; retryAfterMs: number } | { is: "away" };

/** The state after a sync; `state` is the one that `begun` gave, with what was noted since. */
export function ended(state: SyncState, end: SyncEnd, nowMs: number): SyncState {
  if (end.is === "done") return { ...state, notBeforeMs: nowMs, failures: 0 };
  const failures = end.is === "away" ? state.failures + 1 : 0;
  const waitMs =
    end.is === "busy" ? Math.max(end.retryAfterMs, 1000) : Math.min(awayMsMin * 2 ** (failures - 1), awayMsMax);
  return { ...noted(state, nowMs - debounceMs), notBeforeMs: nowMs + waitMs, failures };
}
