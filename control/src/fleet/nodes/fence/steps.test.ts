import { expect, test } from "vitest";
import { type RunValue, runStates } from "../../cluster/keys.ts";
import { runAfterFence } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const run: RunValue = {
  ...{
    attemptId: "d1.1",
    kind: "release",
    ownerKind: "deployment",
    ownerId: "d1",
    projectId: "p1",
    state: "offered",
    cancel: false,
    acceptedBy: null,
    token: null,
  },
  ...{ exitCode: null, timedOut: false, message: null, startedAt: null, finishedAt: null },
  changedAt: "2030-01-01T11:00:00.000Z",
};

const survey = { called: { one: "survey", many: "surveys" } };

/** What the fence makes of each state; null: it stays. */
const after: Record<RunValue["state"], RunValue["state"] | null> = {
  offered: "not_started",
  accepted: "not_started",
  refused: null,
  granted: "indeterminate",
  started: "indeterminate",
  exited: null,
  not_started: null,
  indeterminate: null,
};

test.each(runStates)("a run that is %s", (state) => {
  const next = runAfterFence({ ...run, state, token: "t" }, survey, now);
  expect(next?.state ?? null).toBe(after[state]);
  if (next === null) return;
  expect(next).toMatchObject({
    token: "t",
    changedAt: now.toISOString(),
    message: expect.stringMatching(/the survey was declared lost/),
  });
  // Once more, as after a crash, changes nothing.
  expect(runAfterFence(next, survey, now)).toBeNull();
});
