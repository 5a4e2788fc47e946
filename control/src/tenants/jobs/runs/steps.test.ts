import { expect, test } from "vitest";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import { type JobRunFacts, nextJobRunStep, type OpenAttempt } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00.000Z");
const ago = (ms: number) => new Date(now.getTime() - ms);

const aRun = (state: RunValue["state"], values: Partial<RunValue> = {}): RunValue => ({
  ...{ attemptId: "a1", kind: "job", ownerKind: "job", ownerId: "r1", projectId: "p1", state },
  ...{ cancel: false, acceptedBy: null, token: null, exitCode: null, timedOut: false, message: null },
  ...{ startedAt: null, finishedAt: null, changedAt: ago(1_000).toISOString() },
  ...values,
});
const anAttempt = (run: RunValue | null, values: Partial<OpenAttempt> = {}): OpenAttempt => ({
  ...{ id: "a1", number: 1, nodeId: "n1", nodeLostAt: null, run },
  ...values,
});
const facts = (values: Partial<JobRunFacts> = {}): JobRunFacts => ({
  ...{ now, id: "r1", jobId: "j1", status: "queued", reason: null, trigger: "schedule", attemptCount: 0 },
  ...{ createdAt: ago(1_000), retryAt: null, deploymentId: "d1", isFirst: true },
  job: { deploymentId: "d1", retries: 0, isRetired: false, pause: null },
  ...{ projectGone: false, hasImage: true, attempt: null, last: null, neverBegan: 0 },
  ...values,
});
const begun = { status: "running", attemptCount: 1 } as const;
const asked = { status: "cancel_requested", attemptCount: 1 } as const;
const retries = {
  status: "waiting",
  reason: "retry",
  attemptCount: 1,
  last: { outcome: "failed", message: "No." },
} as const;
const job = (values: Partial<JobRunFacts["job"]>) => ({ job: { ...facts().job, ...values } });
const attempt = (state: RunValue["state"], values: Partial<RunValue> = {}, of: Partial<OpenAttempt> = {}) => ({
  attempt: anAttempt(aRun(state, values), of),
});

test.each<{ when: string; of: Partial<JobRunFacts>; is: string }>([
  { when: "it is new", of: {}, is: "place" },
  { when: "another one is before it", of: { isFirst: false }, is: "note overlap" },
  { when: "it waits for another one", of: { isFirst: false, status: "waiting", reason: "overlap" }, is: "wait" },
  { when: "its pause is not over", of: { ...retries, retryAt: new Date(now.getTime() + 1) }, is: "wait" },
  { when: "its pause is over", of: { ...retries, retryAt: ago(1) }, is: "place" },
  { when: "it was deployed anew", of: job({ deploymentId: "d2" }), is: "move" },
  {
    when: "it was deployed anew, and its first attempt is placed",
    of: { ...job({ deploymentId: "d2" }), ...attempt("offered") },
    is: "wait",
  },
  { when: "it was deployed anew, and it has begun", of: { ...retries, ...job({ deploymentId: "d2" }) }, is: "place" },
  { when: "its job is gone", of: job({ isRetired: true }), is: "end skipped retired" },
  { when: "its job is gone, and it has begun", of: { ...retries, ...job({ isRetired: true }) }, is: "place" },
  { when: "production is stopped", of: job({ pause: "stopped" }), is: "end skipped paused" },
  { when: "production is stopped, and it has begun", of: { ...retries, ...job({ pause: "stopped" }) }, is: "place" },
  {
    when: "the project is suspended",
    of: { ...attempt("accepted"), ...job({ pause: "suspended" }) },
    is: "end skipped paused",
  },
  {
    when: "the project is suspended in a pause",
    of: { ...retries, ...job({ pause: "suspended" }) },
    is: "end canceled paused",
  },
  {
    when: "the project is suspended while it runs",
    of: { ...begun, ...attempt("started"), ...job({ pause: "suspended" }) },
    is: "ask",
  },
  { when: "the project is being deleted", of: { projectGone: true }, is: "end canceled" },
  { when: "its preview is deleted while it runs", of: { ...begun, ...attempt("started"), hasImage: false }, is: "ask" },
  {
    when: "no node had room for an hour",
    of: { status: "waiting", reason: "capacity", createdAt: ago(3_600_000) },
    is: "end skipped capacity",
  },
  { when: "nobody looked for an hour", of: { createdAt: ago(3_600_000) }, is: "end skipped missed" },
  {
    when: "no node had room for its next attempt",
    of: { ...retries, createdAt: ago(9_000_000), retryAt: ago(3_600_000) },
    is: "end failed capacity",
  },
  { when: "it waited for another one for long", of: { createdAt: ago(9_000_000), retryAt: ago(1_000) }, is: "place" },
  { when: "the offer was not written", of: { attempt: anAttempt(null) }, is: "offer" },
  { when: "it is offered", of: attempt("offered"), is: "wait" },
  { when: "no answer comes", of: attempt("offered", { changedAt: ago(900_000).toISOString() }), is: "withdraw" },
  { when: "the node went away", of: attempt("accepted", {}, { nodeLostAt: ago(20_000) }), is: "withdraw" },
  { when: "the node went away a moment ago", of: attempt("accepted", {}, { nodeLostAt: ago(1_000) }), is: "wait" },
  { when: "it is accepted", of: attempt("accepted"), is: "grant" },
  { when: "it is accepted, and a drain takes it back", of: attempt("accepted", { cancel: true }), is: "wait" },
  { when: "a leader died before the grant", of: { ...begun, ...attempt("accepted") }, is: "grant" },
  {
    when: "a leader died before the grant, and it was canceled",
    of: { ...asked, ...attempt("accepted") },
    is: "withdraw",
  },
  { when: "it is granted", of: { ...begun, ...attempt("granted") }, is: "wait" },
  {
    when: "its node is away for days",
    of: { ...begun, ...attempt("started", {}, { nodeLostAt: ago(1e9) }) },
    is: "wait",
  },
  { when: "it is to end", of: { ...asked, ...attempt("started") }, is: "stop" },
  { when: "its node was told", of: { ...asked, ...attempt("started", { cancel: true }) }, is: "wait" },
  { when: "it ended", of: { ...begun, ...attempt("exited", { exitCode: 0 }) }, is: "conclude succeeded: succeeded" },
  {
    when: "it failed, and may be tried again",
    of: { ...begun, ...attempt("exited", { exitCode: 1 }), ...job({ retries: 1 }) },
    is: "conclude failed: retry",
  },
  {
    when: "it failed for the last time",
    of: { ...begun, ...attempt("exited", { exitCode: 1 }) },
    is: "conclude failed: failed",
  },
  {
    when: "nobody knows how it went",
    of: { ...begun, ...attempt("indeterminate"), ...job({ retries: 9 }) },
    is: "conclude unknown: failed",
  },
  {
    when: "its record is gone",
    of: { ...begun, attempt: anAttempt(null), ...job({ retries: 9 }) },
    is: "conclude unknown: failed",
  },
  { when: "the node refused it", of: attempt("refused"), is: "conclude not_started: start" },
  {
    when: "it was too late for its start",
    of: { ...begun, ...attempt("not_started") },
    is: "conclude not_started: start",
  },
  {
    when: "it was canceled before its start",
    of: { ...asked, ...attempt("not_started") },
    is: "conclude not_started: canceled",
  },
])("when $when: $is", ({ of, is }) => {
  const step = nextJobRunStep(facts(of));
  const words = (): (string | null)[] => {
    if (step.do === "end") return [step.ending.status, step.ending.reason];
    if (step.do === "note") return [step.said.reason];
    if (step.do !== "conclude") return [];
    return [`${step.end.outcome}:`, "ends" in step.after ? step.after.ends.status : step.after.reason];
  };
  expect([step.do, ...words()].filter(Boolean).join(" ")).toBe(is);
});

test("what did not begin costs no retry", () => {
  const step = nextJobRunStep(facts({ ...begun, attemptCount: 2, ...attempt("not_started") }));
  expect(step).toMatchObject({ after: { begun: 1 } });
});
