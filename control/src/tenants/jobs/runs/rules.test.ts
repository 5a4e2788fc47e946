import { describe, expect, test } from "vitest";
import { readCursor, writeCursor } from "./cursor.ts";
import { cutMiddle } from "./cut.ts";
import { afterAttempt, attemptEnd, beginOf, cancelOf, type OpenRun, retryAfterMs, runRefusal } from "./rules.ts";

const open = (values: Partial<OpenRun> = {}): OpenRun => ({
  ...{ id: "r1", status: "running", reason: null, trigger: "schedule", attemptCount: 1 },
  ...values,
});
const queued = open({ id: "r2", status: "queued", attemptCount: 0 });
const noRoom = open({ id: "r3", status: "waiting", reason: "capacity", attemptCount: 0 });
const retries = open({ id: "r4", status: "waiting", reason: "retry" });

describe("a new run", () => {
  test.each([
    { when: "nothing is open", overlap: "skip", trigger: "schedule", others: [], is: "insert queued" },
    { when: "one runs", overlap: "skip", trigger: "schedule", others: [open()], is: "insert skipped overlap" },
    { when: "one runs", overlap: "queue", trigger: "schedule", others: [open()], is: "insert waiting overlap" },
    {
      when: "one runs and one waits",
      overlap: "queue",
      trigger: "schedule",
      others: [open(), queued],
      is: "insert skipped overlap",
    },
    {
      when: "one is about to be tried again",
      overlap: "skip",
      trigger: "schedule",
      others: [retries],
      is: "insert skipped overlap",
    },
    { when: "one has to begin", overlap: "queue", trigger: "schedule", others: [queued], is: "insert skipped overlap" },
    { when: "one found no room", overlap: "skip", trigger: "schedule", others: [noRoom], is: "replace r3" },
    { when: "one found no room", overlap: "queue", trigger: "schedule", others: [noRoom], is: "replace r3" },
    {
      when: "one that somebody asked for found no room",
      overlap: "skip",
      trigger: "schedule",
      is: "insert skipped overlap",
      others: [{ ...noRoom, trigger: "manual" as const }],
    },
    { when: "nothing is open", overlap: "skip", trigger: "manual", others: [], is: "insert queued" },
    { when: "one runs", overlap: "skip", trigger: "manual", others: [open()], is: "insert waiting overlap" },
    { when: "one runs and one waits", overlap: "skip", trigger: "manual", others: [open(), queued], is: "answer r2" },
    { when: "it is clicked twice", overlap: "skip", trigger: "manual", others: [queued], is: "answer r2" },
    { when: "one found no room", overlap: "skip", trigger: "manual", others: [noRoom], is: "answer r3" },
    {
      when: "the end of one is asked for",
      overlap: "queue",
      trigger: "schedule",
      others: [open({ status: "cancel_requested" })],
      is: "insert waiting overlap",
    },
  ] as const)("by $trigger with overlap $overlap while $when: $is", ({ overlap, trigger, others, is }) => {
    const begin = beginOf({ overlap, trigger }, others);
    const words = begin.do === "insert" ? [begin.status, begin.said?.reason] : [begin.runId];
    expect([begin.do, ...words].filter(Boolean).join(" ")).toBe(is);
  });
});

describe("how an attempt ended", () => {
  const exited = { state: "exited", cancel: false, exitCode: 0, timedOut: false, message: null } as const;
  test.each([
    { when: "it runs", run: { ...exited, state: "started" as const }, asked: false, is: undefined },
    { when: "it ended well", run: exited, asked: false, is: "succeeded" },
    { when: "it failed", run: { ...exited, exitCode: 3 }, asked: false, is: "failed exit" },
    {
      when: "it took too much memory",
      run: { ...exited, exitCode: 137, message: "It was killed for want of memory." },
      asked: false,
      is: "failed memory",
    },
    {
      when: "it ran out of time and was ended",
      run: { ...exited, exitCode: 143, timedOut: true },
      asked: false,
      is: "timed_out timeout",
    },
    {
      when: "it ran out of time before it was told",
      run: { ...exited, exitCode: 143, timedOut: true, cancel: true },
      asked: true,
      is: "timed_out timeout",
    },
    { when: "it was told to end", run: { ...exited, exitCode: 143, cancel: true }, asked: true, is: "canceled" },
    { when: "it was told to end, and took that well", run: { ...exited, cancel: true }, asked: true, is: "canceled" },
    { when: "its node had not been told yet", run: exited, asked: true, is: "succeeded" },
    { when: "a drain ended it", run: { ...exited, exitCode: 143, cancel: true }, asked: false, is: "failed exit" },
    { when: "it was refused", run: { ...exited, state: "refused" as const }, asked: false, is: "not_started start" },
    { when: "nobody knows", run: { ...exited, state: "indeterminate" as const }, asked: false, is: "unknown unknown" },
  ])("when $when: $is", ({ run, asked, is }) => {
    const end = attemptEnd(run, asked);
    expect(end ? [end.outcome, end.reason].filter(Boolean).join(" ") : undefined).toBe(is);
  });
});

describe("after an attempt", () => {
  const so = { begun: 1, neverBegan: 0, retries: 2, isCancelRequested: false, askedFor: null };
  const end = (outcome: "succeeded" | "failed" | "timed_out" | "canceled" | "unknown" | "not_started") =>
    ({ outcome, reason: null, message: "", exitCode: 1 }) as const;
  test.each([
    { of: "succeeded", so, is: "succeeded" },
    { of: "failed", so, is: "again in 10000" },
    { of: "timed_out", so: { ...so, begun: 2 }, is: "again in 20000" },
    { of: "failed", so: { ...so, begun: 3 }, is: "failed" },
    { of: "timed_out", so: { ...so, begun: 3 }, is: "timed_out" },
    { of: "failed", so: { ...so, isCancelRequested: true }, is: "canceled" },
    { of: "timed_out", so: { ...so, isCancelRequested: true }, is: "timed_out" },
    { of: "unknown", so, is: "failed" },
    { of: "canceled", so, is: "canceled" },
    { of: "not_started", so: { ...so, begun: 0, neverBegan: 1 }, is: "again in 0" },
    { of: "not_started", so: { ...so, begun: 0, neverBegan: 3 }, is: "again in 2000" },
    { of: "not_started", so: { ...so, begun: 0, neverBegan: 8 }, is: "failed" },
    { of: "not_started", so: { ...so, isCancelRequested: true }, is: "canceled" },
  ] as const)("that $of with $so.begun begun: $is", ({ of, so: soFar, is }) => {
    const after = afterAttempt(end(of), soFar);
    expect("ends" in after ? after.ends.status : `again in ${after.againMs}`).toBe(is);
  });
  test("pauses grow up to five minutes", () => {
    expect([1, 2, 3, 5, 6, 10].map(retryAfterMs)).toEqual([10_000, 20_000, 40_000, 160_000, 300_000, 300_000]);
  });
});

test.each([
  ...([
    ["queued", "end"],
    ["waiting", "end"],
    ["running", "ask"],
    ["cancel_requested", "asked"],
  ] as const),
  ...([
    ["succeeded", null],
    ["failed", null],
    ["timed_out", null],
    ["canceled", null],
    ["skipped", null],
  ] as const),
])("a cancellation of one that is %s: %s", (status, is) => expect(cancelOf(status)).toBe(is));

describe("run now", () => {
  const fine = {
    ...{ isSuspended: false, maxScheduledJobs: 5, hasImage: true },
    job: { retired_at: null, deployment_id: "d1", pause_reason: null },
    served: { deploymentId: "d1", isStopped: false },
  };
  test.each([
    { when: "all is well", of: fine, is: undefined },
    { when: "the project is suspended", of: { ...fine, isSuspended: true }, is: "SUSPENDED" },
    { when: "the plan has no jobs", of: { ...fine, maxScheduledJobs: 0 }, is: "PLAN_FEATURE_UNAVAILABLE" },
    {
      when: "the plan has no room for it",
      of: { ...fine, job: { ...fine.job, pause_reason: "plan" as const } },
      is: "PLAN_FEATURE_UNAVAILABLE",
    },
    {
      when: "production is stopped",
      of: { ...fine, served: { deploymentId: "d1", isStopped: true } },
      is: "SCOPE_UNAVAILABLE",
    },
    {
      when: "another deployment serves",
      of: { ...fine, served: { deploymentId: "d2", isStopped: false } },
      is: "SCOPE_UNAVAILABLE",
    },
    { when: "nothing serves", of: { ...fine, served: null }, is: "SCOPE_UNAVAILABLE" },
    {
      when: "it is not in the manifest any more",
      of: { ...fine, job: { ...fine.job, retired_at: new Date(0) } },
      is: "SCOPE_UNAVAILABLE",
    },
    { when: "its image is gone", of: { ...fine, hasImage: false }, is: "ARTIFACT_UNAVAILABLE" },
  ])("when $when: $is", ({ of, is }) => expect(runRefusal(of)?.code).toBe(is));
});

describe("a cursor", () => {
  const listing = ["p1", "production", null, null, "report"];
  test("says where its own list goes on, and nothing of another one", () => {
    const cursor = writeCursor(listing, 12);
    expect(readCursor(listing, cursor)).toBe(12);
    expect(readCursor(["p2", ...listing.slice(1)], cursor)).toBeNull();
    expect(readCursor([...listing.slice(0, 4), null], cursor)).toBeNull();
  });
  test.each(["", "x", "ffff", "r1.", btoa("r1.0"), btoa("d1"), "ä", "=".repeat(8)])("is not %j", (text) => {
    expect(readCursor(listing, text)).toBeNull();
  });
});

describe("an output", () => {
  const chunk = (offset: number, text: string) => ({ offset, data: new TextEncoder().encode(text) });
  test("is shown as it is while it is short", () => {
    expect(cutMiddle([chunk(0, "ab"), chunk(2, "cd")], 4, 1000)).toEqual({ log: "abcd", omittedBytes: 0 });
  });
  test("has its beginning and its end where it is long", () => {
    const { log, omittedBytes } = cutMiddle([chunk(0, "a".repeat(600)), chunk(600, "z".repeat(600))], 1200, 1000);
    expect(log).toBe(`${"a".repeat(436)}\n[${omittedBytes} bytes are not shown]\n${"z".repeat(436)}`);
    expect(omittedBytes).toBe(1200 - 2 * 436);
  });
  test("is never cut inside of a character", () => {
    for (let shift = 0; shift < 4; shift += 1) {
      const text = `${"x".repeat(shift)}${"€".repeat(500)}`;
      const { log } = cutMiddle([chunk(0, text)], 1500 + shift, 1000);
      expect(log).not.toContain("\ufffd");
      expect(new TextEncoder().encode(log).length).toBeLessThanOrEqual(1000);
    }
  });
});
