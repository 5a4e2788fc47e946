import { expect, test } from "vitest";
import { begun, ended, firstState, nextStep, noted, type SyncEnd, type SyncState } from "./steps.ts";

const idle: SyncState = { change: null, notBeforeMs: 0, failures: 0 };
const saved = (firstAtMs: number, lastAtMs = firstAtMs): SyncState => ({ ...idle, change: { firstAtMs, lastAtMs } });

test.each<[string, SyncState, number, ReturnType<typeof nextStep>]>([
  ["nothing was saved", idle, 5000, { do: "wait", ms: null }],
  ["it has only begun", firstState(5000), 5000, { do: "sync" }],
  ["something was saved just now", saved(5000), 5000, { do: "wait", ms: 2000 }],
  ["a little later", saved(5000), 6500, { do: "wait", ms: 500 }],
  ["it has been quiet", saved(5000), 7000, { do: "sync" }],
  ["more is saved", saved(5000, 6900), 7000, { do: "wait", ms: 1900 }],
  ["more is saved without end", saved(5000, 19_900), 20_000, { do: "sync" }],
  ["the platform asked to be left alone", { ...saved(5000), notBeforeMs: 60_000 }, 7000, { do: "wait", ms: 53_000 }],
  ["and that is over", { ...saved(5000), notBeforeMs: 60_000 }, 60_000, { do: "sync" }],
])("when %s", (_when, state, nowMs, step) => {
  expect(nextStep(state, nowMs)).toEqual(step);
});

test.each<[string, SyncState, SyncEnd, SyncState]>([
  ["it is done", idle, { is: "done" }, { ...idle, notBeforeMs: 10_000 }],
  ["what was saved meanwhile is for the next", saved(9000), { is: "done" }, { ...saved(9000), notBeforeMs: 10_000 }],
  [
    "too many deployments wait as long as they are told",
    idle,
    { is: "busy", retryAfterMs: 90_000 },
    { ...saved(8000), notBeforeMs: 100_000 },
  ],
  ["silence is waited out", idle, { is: "away" }, { ...saved(8000), notBeforeMs: 12_000, failures: 1 }],
  ["longer each time", { ...idle, failures: 3 }, { is: "away" }, { ...saved(8000), notBeforeMs: 26_000, failures: 4 }],
  ["with an end", { ...idle, failures: 40 }, { is: "away" }, { ...saved(8000), notBeforeMs: 70_000, failures: 41 }],
])("%s", (_when, state, end, next) => {
  expect(ended(state, end, 10_000)).toEqual(next);
});

/** Plays saves and syncs that each take `syncMs`; returns when each sync began. */
function play(saves: readonly number[], syncMs: number): number[] {
  const began: number[] = [];
  let state = firstState(0);
  let nowMs = 0;
  const left = [...saves];
  const saveUntil = (untilMs: number) => {
    while ((left[0] ?? Number.POSITIVE_INFINITY) <= untilMs) state = noted(state, left.shift() ?? 0);
  };
  for (;;) {
    saveUntil(nowMs);
    const step = nextStep(state, nowMs);
    if (step.do === "sync") {
      began.push(nowMs);
      state = begun(state);
      nowMs += syncMs;
      saveUntil(nowMs);
      state = ended(state, { is: "done" }, nowMs);
    } else if (step.ms === null && left.length === 0) return began;
    else nowMs = Math.min(left[0] ?? Number.POSITIVE_INFINITY, nowMs + (step.ms ?? Number.POSITIVE_INFINITY));
  }
}

const in10Seconds = (count: number) => Array.from({ length: count }, (_, at) => (at * 10_000) / count + 1);

test.each([0, 100, 1000, 3000, 8000, 60_000])("500 saves in 10 s are 3 syncs at most, of %i ms each", (syncMs) => {
  const began = play(in10Seconds(500), syncMs);
  expect(began.length).toBeLessThanOrEqual(3);
  // The last one has them all.
  expect(began.at(-1)).toBeGreaterThan(9980);
});

test("who saves without end is synced all the same", () => {
  const began = play(
    Array.from({ length: 6000 }, (_, at) => at * 10),
    1000,
  );
  expect(began.length).toBeGreaterThan(3);
  expect(began.length).toBeLessThan(7);
});
