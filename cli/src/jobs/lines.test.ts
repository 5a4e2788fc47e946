import type { JobReply, JobRunReply } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { plain } from "../paint.ts";
import { aJob, aJobRun } from "../testing/jobs.ts";
import { endingOfRun, formatAhead, lastOf, nextOf, reasonOf, tookOf, troubleOf, whyNotScheduled } from "./lines.ts";

const now = new Date("2030-01-01T12:00:00.000Z");
const screen = { paint: plain, now };
const job = (fields: Partial<JobReply> = {}) => aJob(fields) as JobReply;
const run = (fields: Partial<JobRunReply> = {}) => aJobRun(fields) as JobRunReply;

describe("when a job runs next", () => {
  test.each<{ when: string; job: Partial<JobReply>; next: string; why: RegExp | null }>([
    {
      when: "scheduled, in its own zone",
      job: { nextFireAt: "2030-01-02T02:00:00.000Z", timezone: "Europe/Berlin" },
      next: "2030-01-02 03:00, in 14 h",
      why: null,
    },
    {
      when: "its zone is unknown here",
      job: { nextFireAt: "2030-01-01T12:05:00.000Z", timezone: "Mars/Olympus" },
      next: "2030-01-01 12:05 UTC, in 5 min",
      why: null,
    },
    {
      when: "nobody knows when it is to fire",
      job: { nextFireAt: null, timezone: "Mars/Olympus" },
      next: "not scheduled",
      why: /never fires.*Mars\/Olympus/,
    },
    { when: "it is due", job: { nextFireAt: "2030-01-01T12:00:00.000Z" }, next: "2030-01-01 12:00, now", why: null },
    {
      when: "disabled by its owner",
      job: { enabled: false, userEnabled: false, nextFireAt: null },
      next: "disabled",
      why: /svc jobs enable nightly/,
    },
    {
      when: "disabled by the manifest, whatever its owner says",
      job: { enabled: false, sourceEnabled: false, userEnabled: true, nextFireAt: null },
      next: "disabled (manifest)",
      why: /manifest says/,
    },
    {
      when: "paused, which counts before all else",
      job: { enabled: false, pauseReason: "stopped", nextFireAt: null },
      next: "paused (stopped)",
      why: /svc start/,
    },
    {
      when: "suspended",
      job: { pauseReason: "suspended", nextFireAt: null },
      next: "paused (suspended)",
      why: /resume/,
    },
    { when: "over the plan", job: { pauseReason: "plan", nextFireAt: null }, next: "paused (plan)", why: /plan/ },
    { when: "nothing is to come", job: { nextFireAt: null }, next: "not scheduled", why: /never fires/ },
  ])("$when", ({ job: fields, next, why }) => {
    expect(nextOf(job(fields), screen)).toBe(next);
    const told = whyNotScheduled(job(fields));
    if (why === null) expect(told).toEqual([]);
    else expect(told.join()).toMatch(why);
  });

  test("how far it is", () => {
    expect(formatAhead("2030-01-01T15:05:00.000Z", now)).toBe("in 3 h 5 min");
    expect(formatAhead("2029-01-01T00:00:00.000Z", now)).toBe("now");
  });
});

describe("how a run went", () => {
  test.each<{ when: string; run: Partial<JobRunReply>; reason: string | null; took: string; ending: RegExp }>([
    { when: "queued", run: { status: "queued" }, reason: null, took: "-", ending: /is queued.*--follow/ },
    {
      when: "waiting for its next attempt",
      run: {
        status: "waiting",
        reason: "retry",
        message: "The next attempt comes.",
        retryAt: "2030-01-01T12:00:20.000Z",
        startedAt: "2030-01-01T11:59:00.000Z",
        attemptCount: 1,
      },
      reason: "The next attempt comes",
      took: "1 min",
      ending: /waits: The next attempt comes, the next attempt in 20 s/,
    },
    {
      when: "succeeded at the second attempt",
      run: {
        status: "succeeded",
        attemptCount: 2,
        exitCode: 0,
        startedAt: "2030-01-01T11:00:00.000Z",
        finishedAt: "2030-01-01T11:00:05.000Z",
      },
      reason: null,
      took: "5 s",
      ending: /^The run succeeded, after 2 attempts$/,
    },
    {
      when: "failed without a word of the platform",
      run: { status: "failed", exitCode: 3, finishedAt: "2030-01-01T11:00:05.000Z" },
      reason: "exit code 3",
      took: "-",
      ending: /failed: exit code 3$/,
    },
    {
      when: "missed many times",
      run: { status: "skipped", reason: "missed", message: "Nobody was there to start it.", missed: 7 },
      reason: "Nobody was there to start it (7 times)",
      took: "-",
      ending: /skipped: Nobody was there to start it \(7 times\)$/,
    },
  ])("$when", ({ run: fields, reason, took, ending }) => {
    expect([reasonOf(run(fields)), tookOf(run(fields), now)]).toEqual([reason, took]);
    expect(endingOfRun(run(fields), now).text).toMatch(ending);
  });

  test("the list says what went wrong last, and since when", () => {
    const failed = run({ status: "failed", message: "Exit code 2.", finishedAt: "2030-01-01T11:00:00.000Z" });
    expect(lastOf(job({ lastRun: null }), screen)).toBe("never ran");
    expect(lastOf(job({ lastRun: failed }), screen)).toBe("failed 1 h ago");
    expect(troubleOf(job({ lastRun: failed, lastSuccessAt: null }), now).join()).toMatch(
      /Exit code 2; it never succeeded/,
    );
    expect(troubleOf(job({ lastRun: run({ status: "succeeded" }) }), now)).toEqual([]);
  });
});
